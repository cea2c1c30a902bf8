import stat
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.handmade import edited
from tests.strategies import dialogues
from yanami_dataset.builder import MAX_BYTES, MAX_ROWS, write_dataset
from yanami_dataset.errors import DataError, InvariantError, SourceError, SpecError
from yanami_dataset.features import features, from_row, to_row
from yanami_dataset.images import encode_png, sha256
from yanami_dataset.reader import DialogueFolder
from yanami_dataset.schema import SCENARIOS, Part

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def mixed(count):
    return [edited(f"d{n:03}", SCENARIOS[n % 3]) for n in range(count)]


def undecoded(data):
    from datasets import Image, List

    return data.cast_column("images", List(Image(decode=False)))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "bench"
    several = mixed(100)
    return out, several, write_dataset(several, out, name="Try")


def load(out, cache, *args, **options):
    from datasets import load_dataset

    return load_dataset(str(out), *args, split="test", cache_dir=str(cache), **options)


def test_every_configuration_reads_its_own_rows(written, tmp_path):
    out, several, _ = written
    for config in ("fusion", "editing", "modeling"):
        expected = [to_row(d) for d in several if d.scenario == config]
        whole = undecoded(load(out, tmp_path, config))
        assert whole.features == undecoded_features()
        assert list(whole) == expected
        stream = load(out, tmp_path, config, streaming=True)
        assert stream.features == features()
        assert list(stream.decode(False)) == expected
    from datasets import get_dataset_config_names

    assert sorted(get_dataset_config_names(str(out))) == ["default", "editing", "fusion", "modeling"]


def undecoded_features():
    from datasets import Features, Image, List

    return Features({**features(), "images": List(Image(decode=False))})


def test_the_default_reads_all_in_the_order_of_the_folder_reader(written, tmp_path):
    out, several, _ = written
    whole = load(out, tmp_path)
    assert whole.features == features()
    assert [from_row(row) for row in undecoded(whole)] == list(DialogueFolder(out))
    assert list(load(out, tmp_path, streaming=True).decode(False)) == list(undecoded(whole))
    assert sorted(whole["id"]) == [d.id for d in several]
    assert whole[0]["images"][0].size == (4, 3)


def test_a_configuration_opens_only_its_files(written, tmp_path):
    out, _, _ = written
    stream = load(out, tmp_path, "fusion", streaming=True)
    assert stream.num_shards == len(list(out.glob("data/fusion/*.parquet"))) == 2


def test_files_are_one_plain_row_group_of_bounded_size(written):
    from datasets import Features

    out, several, summary = written
    files = sorted(out.rglob("*.parquet"))
    for file in files:
        parquet = pq.ParquetFile(file)
        assert parquet.num_row_groups == 1
        assert parquet.metadata.num_rows <= MAX_ROWS
        group = parquet.metadata.row_group(0)
        assert {group.column(i).compression for i in range(group.num_columns)} == {"UNCOMPRESSED"}
        assert parquet.schema_arrow.metadata == features().arrow_schema.metadata
        assert Features.from_arrow_schema(parquet.schema_arrow) == features()
        parquet.close()
    assert summary.total.files == len(files)
    assert summary.total.dialogues == len(several)
    assert summary.total.images == 2 * len(several)
    assert summary.total.disk_bytes == sum(file.stat().st_size for file in files)
    assert list(summary.scenarios) == ["fusion", "editing", "modeling"]


def test_many_bytes_close_a_file_before_many_rows(tmp_path):
    noise = np.random.default_rng(0)
    big = [encode_png(Image.fromarray(noise.integers(0, 256, (1500, 1500, 3), dtype=np.uint8))) for _ in range(2)]
    several = [edited(f"d{n}", start=big[0], end=big[1]) for n in range(8)]  # 13.5 MB each
    write_dataset(several, tmp_path / "out", name="Try")
    files = sorted((tmp_path / "out").rglob("*.parquet"))
    assert [pq.read_metadata(file).num_rows for file in files] == [4, 4]
    assert all(file.stat().st_size < MAX_BYTES + 2**20 for file in files)


def test_the_card_states_what_is_there(written):
    out, _, summary = written
    text = (out / "README.md").read_text()
    card = yaml.safe_load(text.split("---")[1])
    assert [c["config_name"] for c in card["configs"]] == ["default", "editing", "fusion", "modeling"]
    infos = {info["config_name"]: info for info in card["dataset_info"]}
    for scenario, share in summary.scenarios.items():
        assert infos[scenario]["splits"] == [
            {"name": "test", "num_bytes": share.arrow_bytes, "num_examples": share.dialogues}
        ]
    assert infos["default"]["splits"][0]["num_examples"] == 100
    assert "| editing | 33 | 66 |" in text


def test_a_training_split(tmp_path):
    from datasets import load_dataset

    write_dataset(mixed(3), tmp_path / "out", name="Try", split="train")
    data = load_dataset(str(tmp_path / "out"), "editing", cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in data.items()} == {"train": 1}


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(dialogues(), min_size=1, max_size=6, unique_by=lambda d: d.id))
def test_what_is_written_is_read(tmp_path_factory, several):
    out = tmp_path_factory.mktemp("any") / "out"
    write_dataset(several, out, name="Try")
    assert {d.id: d for d in DialogueFolder(out)} == {d.id: d for d in several}


def broken_dialogues():
    good = edited("bad")
    wrong_hash = replace(good.image_info[1], sha256="0" * 64)
    wrong_width = replace(good.image_info[0], width=9)
    cut = good.images[1][:-20]
    cut_info = (good.image_info[0], replace(good.image_info[1], sha256=sha256(cut)))
    user, assistant = good.messages
    lone = replace(user, content=(Part("text", "\ud800"), *user.content[1:]))
    return {
        "image_info[1].sha256: expected the hash of the bytes": replace(
            good, image_info=(good.image_info[0], wrong_hash)
        ),
        "image_info[0]: expected the displayed size 4 x 3, got 9 x 3": replace(
            good, image_info=(wrong_width, good.image_info[1])
        ),
        "images[1]: expected a whole PNG": replace(good, images=(good.images[0], cut), image_info=cut_info),
        "scenario: expected one of": replace(good, scenario="painting"),
        "checks[0]: expected an existing slot": replace(good, checks=(replace(good.checks[0], slot=3),)),
        "expected values that fit the columns": replace(good, messages=(lone, assistant)),
    }


@pytest.mark.parametrize("says", broken_dialogues())
def test_a_bad_dialogue_stops_and_leaves_nothing(tmp_path, says):
    bad = broken_dialogues()[says]
    with pytest.raises(InvariantError) as error:
        write_dataset([*mixed(30), bad], tmp_path / "deep" / "out", name="Try")
    assert str(error.value).startswith("dialogue 'bad': ")
    assert says in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("says", broken_dialogues())
def test_a_bad_dialogue_is_left_out_when_asked(tmp_path, says):
    bad, earlier = broken_dialogues()[says], SourceError("lines.jsonl, line 3: nothing")
    done = []
    summary = write_dataset(
        [*mixed(3), bad], tmp_path / "out", name="Try", skip_bad=True, skipped=[earlier], progress=done.append
    )
    assert DialogueFolder(tmp_path / "out").ids() == ("d001", "d000", "d002")
    assert summary.skipped[0] == "lines.jsonl, line 3: nothing"
    assert says in summary.skipped[1]
    assert sum(done) == 4


def test_an_id_comes_once(tmp_path):
    twice = [*mixed(2), edited("d000", "reasoning")]
    with pytest.raises(InvariantError, match="'d000': id: expected one that no other dialogue has"):
        write_dataset(twice, tmp_path / "out", name="Try")
    assert write_dataset(twice, tmp_path / "out", name="Try", skip_bad=True).total.dialogues == 2


def test_nothing_to_write_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"expected at least one dialogue to write, got none$"):
        write_dataset([], tmp_path / "out", name="Try")
    with pytest.raises(DataError, match="all 1 were left out, the first for: dialogue 'bad'"):
        write_dataset([replace(edited("bad"), scenario="x")], tmp_path / "out", name="Try", skip_bad=True)
    assert list(tmp_path.iterdir()) == []


def test_a_target_with_something_in_it_is_refused_and_an_empty_one_taken(tmp_path):
    (tmp_path / "file").write_text("mine")
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    for out in (tmp_path / "file", full):
        with pytest.raises(SpecError, match="expected a new folder to write to"):
            write_dataset(mixed(1), out, name="Try")
    assert (full / "mine.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    write_dataset(mixed(1), tmp_path / "empty", name="Try")
    assert (tmp_path / "empty" / "README.md").exists()


def test_the_folder_has_ordinary_permissions(tmp_path):
    write_dataset(mixed(1), tmp_path / "out", name="Try")
    (tmp_path / "ordinary").mkdir()
    made, ordinary = (stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out", "ordinary"))
    assert made == ordinary


def test_memory_stays_flat(tmp_path):
    noise = np.random.default_rng(0)
    big = encode_png(Image.fromarray(noise.integers(0, 256, (800, 800, 3), dtype=np.uint8)))  # 1.9 MB
    peak = []

    def several():
        for n in range(150):  # 290 MB in all
            peak.append(pa.total_allocated_bytes())
            yield edited(f"d{n}", start=big)

    before = pa.total_allocated_bytes()
    write_dataset(several(), tmp_path / "out", name="Try")
    assert max(peak) - before < 2 * MAX_BYTES
