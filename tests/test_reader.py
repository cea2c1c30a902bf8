import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.handmade import edited
from tests.strategies import colour_png
from yanami_dataset.builder import write_dataset
from yanami_dataset.errors import DataError, InvariantError, SourceError, SpecError
from yanami_dataset.features import features, to_row
from yanami_dataset.reader import DialogueFolder, DialogueList, open_rows
from yanami_dataset.schema import SCENARIOS


def several(count=60):
    return [edited(f"d{n:03}", SCENARIOS[n % 2], start=colour_png(n)) for n in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("read") / "bench"
    write_dataset(several(), out, name="Try")
    return out


def stored():
    return [d for d in several() if d.scenario == "editing"] + [d for d in several() if d.scenario == "fusion"]


def test_dialogues_come_back_in_stored_order(folder):
    data = DialogueFolder(folder)
    assert len(data) == 60
    assert data.ids() == tuple(d.id for d in stored())
    assert data.scenarios() == DialogueList(stored()).scenarios() == ("editing",) * 30 + ("fusion",) * 30
    assert data._texts._kept == {}
    assert data.get("d017") == several()[17]
    assert list(data) == stored()


def test_scenarios_and_ids_narrow_it_down(folder):
    fusion = DialogueFolder(folder, scenarios=["fusion"])
    assert [d.scenario for d in fusion] == ["fusion"] * 30
    some = DialogueFolder(folder).select(["d004", "d001", "d000"])
    assert some.ids() == ("d001", "d000", "d004")
    assert [d.id for d in some] == list(some.ids())
    with pytest.raises(DataError, match="which has 30, got 'd001'"):
        fusion.get("d001")
    with pytest.raises(DataError, match="got 'a', 'b', 'c' and 1 more"):
        fusion.select("abcd")
    with pytest.raises(SpecError, match="got 'painting'"):
        DialogueFolder(folder, scenarios=["painting"])


def test_images_are_read_when_asked(folder):
    data = DialogueFolder(folder)
    first = data.get("d000")
    assert data._images._kept == {}
    assert len(first.images) == 2
    assert data._images._kept == {}
    assert first.images[-1] == colour_png(2)
    assert first.images[:1] == (colour_png(0),)
    assert [len(d.images[0]) > 0 for d in data] == [True] * 60
    assert len(data._images._kept) <= 2
    with pytest.raises(IndexError):
        first.images[2]
    assert repr(first.images) == "<2 images>"


def test_folder_and_dialogues_travel_to_other_processes(folder):
    data = DialogueFolder(folder)
    assert list(pickle.loads(pickle.dumps(data))) == list(data)  # noqa: S301 our own bytes
    dialogue = pickle.loads(pickle.dumps(data.get("d003")))  # noqa: S301
    assert dialogue.images == several()[3].images


def test_threads_may_share_it(folder):
    data, results = DialogueFolder(folder), []

    def read():
        results.append([bytes(image) for dialogue in data for image in dialogue.images])

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[image for dialogue in stored() for image in dialogue.images]] * 4


def test_row_groups_of_others_are_read(tmp_path):
    table = pa.Table.from_pylist([to_row(d) for d in several(10)], schema=features().arrow_schema)
    (tmp_path / "deep").mkdir()
    name = tmp_path / "deep" / "x.parquet"
    pq.write_table(table, name, row_group_size=3, compression="ZSTD", use_compliant_nested_type=False)
    assert list(DialogueFolder(tmp_path)) == several(10)
    assert list(DialogueFolder(tmp_path / "deep" / "x.parquet")) == several(10)
    assert len(DialogueFolder(tmp_path).revision) == 64


def test_the_revision_follows_the_content(folder, tmp_path):
    same, other = tmp_path / "same", tmp_path / "other"
    write_dataset(several(), same, name="Another name")
    changed = [replace(d, checks=(replace(d.checks[0], criterion="The image is DARKER."),)) for d in several()]
    write_dataset(changed, other, name="Try")
    revisions = [DialogueFolder(path).revision for path in (folder, same, other)]
    assert revisions[0] == revisions[1] != revisions[2]
    assert DialogueFolder(folder, scenarios=["fusion"]).select(["d000"]).revision == revisions[0]


def test_text_of_a_bench_is_there_at_once(tmp_path):
    base = edited("x")
    long = [
        replace(
            base,
            id=f"d{n}",
            messages=base.messages * 5,
            turns=base.turns * 5,
            images=base.images[:1],
            image_info=base.image_info[:1],
            checks=tuple(replace(base.checks[0], id=f"c{k}") for k in range(24)),
        )
        for n in range(400)
    ]
    user, assistant = base.messages
    text_only = replace(assistant, content=assistant.content[:1])
    slot = replace(assistant, content=(assistant.content[0], replace(assistant.content[1], index=None)))
    long = [replace(d, messages=(user, slot, *(user, text_only) * 4)) for d in long]
    write_dataset(long, tmp_path / "out", name="Try")
    times = []
    for _ in range(3):
        start = time.perf_counter()
        assert len(list(DialogueFolder(tmp_path / "out"))) == 400
        times.append(time.perf_counter() - start)
    assert min(times) < 0.5


def table_without(name):
    return pa.Table.from_pylist([to_row(edited())], schema=features().arrow_schema).drop_columns([name])


def other_labels():
    from datasets import ClassLabel, Features

    other = Features({**features(), "scenario": ClassLabel(names=["editing", "fusion", "modeling", "reasoning"])})
    return pa.Table.from_pylist([to_row(edited())], schema=other.arrow_schema)


def wrong_types():
    row = to_row(edited())
    return pa.Table.from_pylist([{**row, "messages": "hello"}])


def wrong_images():
    return pa.Table.from_pylist([{**to_row(edited()), "images": [b"x"]}])


def invalid_row():
    row = to_row(edited())
    row["checks"][0]["slot"] = 7
    return pa.Table.from_pylist([row], schema=features().arrow_schema)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "with none: import or build a data set first"),
        (b"", "expected a whole Parquet file of dialogues, got an unreadable one"),
        (b"PAR1 and so on PAR1", "expected a whole Parquet file of dialogues, got an unreadable one"),
        (lambda: table_without("checks"), "got none named checks"),
        (lambda: table_without("images"), "got none named images"),
        (other_labels, "expected the labels fusion, editing, modeling, reasoning for scenario, got editing, fusion"),
        (wrong_types, "row 'd1': expected the types of yanami's features"),
        (wrong_images, "expected images as lists of {bytes, path}, got list<"),
        (invalid_row, "dialogue 'd1': checks[0]: expected an existing slot, got turn 0, slot 7"),
    ],
)
def test_what_is_no_data_set_says_why(tmp_path, content, says):
    if isinstance(content, bytes):
        (tmp_path / "x.parquet").write_bytes(content)
    elif content is not None:
        pq.write_table(content(), tmp_path / "x.parquet")
    with pytest.raises(SourceError) as error:
        list(DialogueFolder(tmp_path))
    assert says in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_a_cut_file_and_a_missing_folder(folder, tmp_path):
    whole = next(folder.rglob("*.parquet")).read_bytes()
    (tmp_path / "x.parquet").write_bytes(whole[:-100])
    with pytest.raises(SourceError, match="unreadable"):
        DialogueFolder(tmp_path)
    with pytest.raises(SourceError, match="which doesn't exist"):
        DialogueFolder(tmp_path / "nowhere")


def test_ids_are_unique_over_files(folder, tmp_path):
    whole = next(folder.rglob("*.parquet")).read_bytes()
    for name in ("a.parquet", "b.parquet"):
        (tmp_path / name).write_bytes(whole)
    with pytest.raises(
        DataError, match=r"b.parquet: expected unique dialogue ids, got 'd0.1' again \(first in .*a.parq"
    ):
        DialogueFolder(tmp_path)


def test_links_out_of_the_folder_are_refused(folder, tmp_path):
    target = next(folder.rglob("*.parquet"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.parquet").symlink_to(target)
    with pytest.raises(SourceError, match=r"expected files inside .*, a link to "):
        DialogueFolder(tmp_path)


def test_the_hubs_cache_links_to_its_blobs(folder, tmp_path):
    snapshot = tmp_path / "datasets--me--bench" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    blobs = tmp_path / "datasets--me--bench" / "blobs"
    blobs.mkdir()
    (blobs / "0123").write_bytes(next(folder.rglob("*.parquet")).read_bytes())
    (snapshot / "x.parquet").symlink_to("../../blobs/0123")
    assert len(DialogueFolder(snapshot)) > 0


def test_rows_in_memory(folder, tmp_path):
    from datasets import load_dataset

    data = load_dataset(str(folder), split="test", cache_dir=str(tmp_path))
    rows = open_rows(data)
    assert list(rows) == stored()
    assert rows.select(["d002"]).ids() == ("d002",)
    assert rows.get("d002") == several()[2]
    assert len(rows) == 60
    assert rows.revision == DialogueList(stored()).revision != rows.select(["d002"]).revision
    with pytest.raises(InvariantError):
        open_rows([to_row(replace(edited(), turns=()))])
    with pytest.raises(DataError, match="'d1' twice"):
        open_rows([to_row(edited())] * 2)
    with pytest.raises(DataError, match="got 'nobody'"):
        rows.get("nobody")


def test_a_folder_is_read_without_datasets(folder):
    code = (
        "import sys; from yanami_dataset.reader import DialogueFolder;"
        "sum(len(i) for d in DialogueFolder(sys.argv[1]) for i in d.images); sys.exit('datasets' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(folder)], check=False).returncode == 0
