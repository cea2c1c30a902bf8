"""What a model's weights are, as a short string: a path is none, since checkpoints reuse paths.

Of files only as much is read as tells two trainings apart: small ones whole, of large ones the header and samples from
all over the file (of safetensors: from every tensor), since weights of one architecture agree in sizes and headers. Of
a model in memory the same, from its tensors. Knows nothing of adapters.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from yanami_dataset.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

SMALL = 1 << 20  # bytes; smaller files are read whole
BLOCK = 4096  # bytes of a sample of a large file
BLOCKS = 256  # samples of a large file, and its header
TENSOR_BLOCK = 512  # bytes of a sample of a tensor: at its start, its middle and its end
SAMPLES = 256  # numbers of a tensor in memory


def folder_identity(folder: str | Path) -> str:
    """The identity of a folder of weights (or of one file): independent of where it lies.

    Every file counts with its relative name, size and content, sampled if it has 1 MiB or more; names that start with
    a dot don't count.

    Raises:
        ModelError: no such folder, or nothing in it.
    """
    root = Path(folder)
    files = [root] if root.is_file() else sorted(_visible_files(root))
    if not files:
        raise ModelError(f"expected a folder with a model's files at {root}, found none")
    digest = hashlib.sha256(b"yanami-files/1")
    for path in files:
        name = path.name if path == root else path.relative_to(root).as_posix()
        digest.update(json.dumps([name, path.stat().st_size]).encode())
        with path.open("rb") as file:
            for block in _samples(file, path.stat().st_size, tensors=path.suffix == ".safetensors"):
                digest.update(block)
    return f"files:{digest.hexdigest()[:32]}"


def hub_identity(id: str, commit: str) -> str:
    """The identity of a Hub repository at a commit.

    Raises:
        ModelError: the commit is none (a branch moves, so it is no identity).

    >>> hub_identity("org/model", "0" * 40)
    'hub:org/model@0000000000000000000000000000000000000000'
    """
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise ModelError(f"{id}: expected a commit of 40 hex digits, got {commit!r}; a branch or tag is no identity")
    return f"hub:{id}@{commit}"


def snapshot_identity(id: str, snapshot: str | Path) -> str:
    """The identity of a Hub repository that was downloaded into the cache: the folder's name is the commit."""
    return hub_identity(id, Path(snapshot).name)


def tensors_identity(tensors: Iterable[tuple[str, Tensor]], config: Any = None) -> str:
    """The identity of a model in memory: names, shapes, types and sampled values of its tensors, on whatever device.

    Args:
        tensors: name and tensor, e.g. `model.state_dict().items()`.
        config: JSON-able; what else makes the model what it is.

    Raises:
        ModelError: there are none, or some have no values here (offloaded).
    """
    digest = hashlib.sha256(b"yanami-tensors/1" + json.dumps(config, sort_keys=True, default=str).encode())
    count = 0
    for count, (name, tensor) in enumerate(sorted(tensors, key=lambda pair: pair[0]), 1):  # noqa: B007
        if tensor.device.type == "meta":
            raise ModelError(f"the values of {name!r} are not in memory, so they can't be hashed: name them with a tag")
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(_values(tensor))
    if not count:
        raise ModelError("expected a model with tensors to be hashed, found none: name it with a tag")
    return f"tensors:{digest.hexdigest()[:32]}"


def options_suffix(options: Mapping[str, Any]) -> str:
    """What options that change outputs add to an identity; nothing if there are none.

    >>> options_suffix({})
    ''
    >>> options_suffix({"num_inference_steps": 4}) == options_suffix({"num_inference_steps": 5})
    False
    """
    if not options:
        return ""
    text = json.dumps(options, sort_keys=True, default=repr)
    return f"+{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _values(tensor: Tensor) -> bytes:
    import torch

    flat = tensor.detach().reshape(-1)
    if flat.numel() > SAMPLES:
        positions = torch.linspace(0, flat.numel() - 1, SAMPLES, dtype=torch.float64).long()
        flat = flat[positions.to(flat.device)]
    if flat.is_complex():
        flat = torch.view_as_real(flat)
    return flat.to("cpu", torch.float64).numpy().tobytes()


def _visible_files(root: Path) -> Iterator[Path]:
    """All files, also through links, as the Hub's cache has them."""
    for parent, folders, names in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and (path := Path(parent, name)).is_file():
                yield path


def _samples(file: BinaryIO, size: int, *, tensors: bool) -> Iterator[bytes]:
    if size < SMALL:
        yield file.read()
        return
    spans = list(_tensor_spans(file, size)) if tensors else []
    if not spans:
        last = size - BLOCK
        spans = [(last * i // (BLOCKS - 1), BLOCK) for i in range(BLOCKS)]
    for start, length in spans:
        file.seek(start)
        yield file.read(length)


def _tensor_spans(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """(start, length) of the header of a safetensors file and of samples of each tensor; nothing if it is none."""
    length = int.from_bytes(file.read(8), "little")
    if length > size - 8:
        return
    try:
        header = json.loads(file.read(length))
    except ValueError:
        return
    base = 8 + length
    yield 0, base
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        start, end = (base + offset for offset in tensor["data_offsets"])
        middle = max(start, (start + end - TENSOR_BLOCK) // 2)
        last = max(start, end - TENSOR_BLOCK)
        yield from ((at, min(TENSOR_BLOCK, end - at)) for at in sorted({start, middle, last}))
