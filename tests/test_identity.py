"""What weights are, by their content: another training is another model, another place isn't."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from yanami_dataset.errors import ModelError
from yanami_metric.models.identity import (
    SMALL,
    folder_identity,
    hub_identity,
    snapshot_identity,
    tensors_identity,
)


def save(folder, seed=0, layers=3, changed: str | None = None):
    """A folder of weights of one architecture: equal names, sizes and headers for every seed."""
    rng = np.random.default_rng(seed)
    weights = {f"layer{i}": rng.normal(size=(400, 500)).astype(np.float32) for i in range(layers)}
    weights["bias"] = np.zeros(4, np.float32)
    if changed:
        weights[changed] = weights[changed] + np.float32(0.01)
    (folder / "unet").mkdir(parents=True, exist_ok=True)
    (folder / "model_index.json").write_text("{}")
    save_file(weights, folder / "unet" / "model.safetensors")
    return folder


def test_a_copy_elsewhere_is_the_same(tmp_path):
    first = folder_identity(save(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "elsewhere" / "b")
    assert folder_identity(tmp_path / "elsewhere" / "b") == first
    (tmp_path / "a" / ".cache").mkdir()
    (tmp_path / "a" / ".cache" / "download.lock").write_text("now")
    assert folder_identity(str(tmp_path / "a")) == first


def test_links_as_in_the_hub_cache_are_the_same(tmp_path):
    folder = save(tmp_path / "a")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "unet").symlink_to(folder / "unet")
    (linked / "model_index.json").symlink_to(folder / "model_index.json")
    assert folder_identity(linked) == folder_identity(folder)


def test_overwritten_weights_of_the_same_architecture_are_others(tmp_path):
    folder = save(tmp_path / "a")
    size = (folder / "unet" / "model.safetensors").stat().st_size
    first = folder_identity(folder)
    assert size > 2 * SMALL
    assert folder_identity(save(folder, seed=1)) != first
    assert (folder / "unet" / "model.safetensors").stat().st_size == size
    assert folder_identity(save(folder)) == first


@pytest.mark.parametrize("tensor", ["layer0", "layer1", "layer2", "bias"])
def test_training_one_tensor_alone_shows(tmp_path, tensor):
    assert folder_identity(save(tmp_path / "a", changed=tensor)) != folder_identity(save(tmp_path / "b"))


def test_large_files_of_other_kinds_are_sampled_all_over(tmp_path):
    data = bytes(3 * SMALL)
    (tmp_path / "weights.bin").write_bytes(data)
    first = folder_identity(tmp_path)
    for start in (0, len(data) // 2, len(data) - 20_000):
        (tmp_path / "weights.bin").write_bytes(data[:start] + b"x" * 20_000 + data[start + 20_000 :])
        assert folder_identity(tmp_path) != first
    (tmp_path / "weights.safetensors").write_bytes(b"\xff" * (2 * SMALL))  # no safetensors at all
    assert folder_identity(tmp_path) != first


def test_another_name_or_small_file_is_another_model(tmp_path):
    folder = save(tmp_path / "a")
    first = folder_identity(folder)
    (folder / "model_index.json").write_text('{"scheduler": 1}')
    second = folder_identity(folder)
    (folder / "model_index.json").rename(folder / "index.json")
    assert len({first, second, folder_identity(folder)}) == 3


def test_nothing_there_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"expected a folder with a model's files at .*nowhere"):
        folder_identity(tmp_path / "nowhere")


def test_a_hub_model_is_its_commit(tmp_path):
    commit = "0123456789abcdef" * 2 + "01234567"
    assert hub_identity("org/name", commit) == f"hub:org/name@{commit}"
    assert snapshot_identity("org/name", tmp_path / "snapshots" / commit) == f"hub:org/name@{commit}"
    with pytest.raises(ModelError, match="expected a commit of 40 hex digits, got 'main'"):
        hub_identity("org/name", "main")


def test_tensors_in_memory():
    layer = torch.nn.Linear(300, 20)
    first = tensors_identity(layer.state_dict().items())
    assert tensors_identity(reversed(layer.state_dict().items())) == first
    assert tensors_identity(layer.state_dict().items(), {"steps": 4}) != first
    with torch.no_grad():
        layer.bias += 0.5
    assert tensors_identity(layer.state_dict().items()) != first
    assert tensors_identity([("a", torch.zeros(3))]) != tensors_identity([("a", torch.zeros(3, dtype=torch.bfloat16))])
    with pytest.raises(ModelError, match="name them with a tag"):
        tensors_identity([("a", torch.zeros(3, device="meta"))])
    with pytest.raises(ModelError, match="expected a model with tensors"):
        tensors_identity([])
