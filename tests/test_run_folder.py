"""The run folder: torn lines, hostile names, damage."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yanami_dataset.errors import RunFolderError
from yanami_metric.jsonl import JsonLines
from yanami_metric.run_folder import OutputRecord, RunFolder, StoredImage, safe_name

records = st.lists(
    st.builds(
        lambda dialogue, value: {"dialogue": dialogue, "value": value},
        st.text(max_size=6),
        st.integers() | st.text(max_size=6),
    ),
    max_size=12,
)


@given(written=records, data=st.data())
def test_a_torn_file_gives_back_all_whole_lines_and_goes_on(tmp_path_factory, written, data):
    path = tmp_path_factory.mktemp("lines") / "x.jsonl"
    with JsonLines(path, writable=True) as lines:
        for record in written:
            lines.append(record)
        for name in {record["dialogue"] for record in written}:
            assert lines.of(name) == [record for record in written if record["dialogue"] == name]
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = written[: whole[:cut].count(b"\n")]
    with JsonLines(path) as torn:
        assert len(torn) == len(kept)
    with JsonLines(path, writable=True) as again:
        again.append({"dialogue": "new", "value": 1})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [*kept, {"dialogue": "new", "value": 1}]


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"dialogue": "a"}\n{"value": 1}\n{"dialogue": "a"}\n')
    with pytest.raises(RunFolderError, match=r"x\.jsonl, line 2: expected a record that starts with a dialogue"):
        JsonLines(path)
    path.write_text('{"dialogue": "a", "value": }\n')
    with JsonLines(path) as lines, pytest.raises(RunFolderError, match=r"x\.jsonl, byte 0: expected a JSON record"):
        lines.of("a")


@given(st.text(), st.text())
def test_file_names_are_harmless_and_distinct(one, other):
    name = safe_name(one)
    assert name and "/" not in name and "\\" not in name and not name.startswith(".") and len(name.encode()) < 120
    assert (one == other) or name.lower() != safe_name(other).lower()


def test_an_output_that_names_a_file_outside_is_not_read(tmp_path):
    (tmp_path / "secret.png").write_bytes(b"secret")
    with RunFolder(tmp_path / "run", {}, writable=True) as folder:
        image = folder.image(StoredImage("../secret.png", "0" * 64, 1, 1))
        with pytest.raises(RunFolderError, match="outside the run folder"):
            image.read()


def test_the_last_line_of_an_item_counts(tmp_path):
    with RunFolder(tmp_path / "run", {}, writable=True) as folder:
        for status in ("generation_error", "ok"):
            folder.append_output("gt", OutputRecord("d", 1, None, "key", status))
        assert {item: record.status for item, record in folder.current("gt", "d").items()} == {(1, None): "ok"}
        assert folder.current("gt", "other") == {}
        with pytest.raises(ValueError, match=r"NaN|Out of range|not JSON compliant"):
            folder.write_json("scores.json", {"value": float("nan")})
        assert not (tmp_path / "run" / "scores.json").exists()
