import subprocess
import sys
from dataclasses import replace
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import colour_png, dialogues
from yanami_dataset.errors import DataError
from yanami_dataset.features import COLUMNS, LABELS, features, from_row, to_row
from yanami_dataset.images import check_images
from yanami_dataset.schema import Dialogue, validate


@given(dialogues())
def test_the_strategy_keeps_every_invariant(dialogue):
    validate(dialogue)
    check_images(dialogue)
    assert len(set(dialogue.images)) == len(dialogue.images)


@given(dialogues())
def test_a_row_loses_nothing(dialogue):
    assert from_row(to_row(dialogue)) == dialogue


@settings(max_examples=10, deadline=None)
@given(st.lists(dialogues(), min_size=1, max_size=3))
def test_datasets_hold_the_same_rows(several):
    from datasets import Dataset, Image, List

    data = Dataset.from_list([to_row(dialogue) for dialogue in several], features=features())
    assert data.features == features()
    undecoded = data.cast_column("images", List(Image(decode=False)))
    assert [from_row(row) for row in undecoded] == several
    assert [row["scenario"] for row in data] == [LABELS["scenario"].index(d.scenario) for d in several]
    assert [[image.size for image in row["images"]] for row in data] == [
        [(info.width, info.height) for info in dialogue.image_info] for dialogue in several
    ]


@given(dialogues())
def test_labels_come_back_from_names_too(dialogue):
    row = to_row(dialogue)
    row["scenario"] = dialogue.scenario
    for info in row["image_info"]:
        info["role"] = LABELS["image_info.role"][info["role"]]
    for turn in row["turns"]:
        turn["capabilities"] = [LABELS["turns.capabilities"][n] for n in turn["capabilities"]]
    for check in row["checks"]:
        check["kind"] = LABELS["checks.kind"][check["kind"]]
    assert from_row(row) == dialogue


def test_the_columns_are_those_of_the_specification():
    types = features().to_dict()
    assert list(types) == list(COLUMNS)
    assert types["scenario"]["names"] == ["fusion", "editing", "modeling", "reasoning"]
    assert types["images"] == {"feature": {"_type": "Image"}, "_type": "List"}
    assert list(types["image_info"]["feature"]) == ["role", "turn", "sha256", "width", "height", "source", "license"]
    assert list(types["messages"]["feature"]["content"]["feature"]) == ["type", "text", "index"]
    assert list(types["turns"]["feature"]) == ["capabilities", "state"]
    assert list(types["questions"]["feature"]) == [
        "id",
        "dimension",
        "turn",
        "question",
        "answer",
        "choices",
        "images",
    ]
    assert list(types["checks"]["feature"]) == ["id", "turn", "slot", "criterion", "kind", "capability", "probe"]
    assert types["checks"]["feature"]["turn"] == {"dtype": "int32", "_type": "Value"}
    assert types["checks"]["feature"]["capability"]["_type"] == "ClassLabel"


def row_with(**changes):
    return {**to_row(Dialogue("d7", "fusion", (), ())), **changes}


def pil_image():
    from PIL import Image

    return Image.open(BytesIO(colour_png(0)))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (row_with(images=[pil_image()]), "images[0] as PngImageFile, expected encoded bytes: load the rows undecoded"),
        (row_with(images=[{"bytes": None, "path": "/etc/passwd"}]), "images[0] without bytes (path '/etc/passwd')"),
        (row_with(scenario=4), "4 for scenario (0 to 3)"),
        (row_with(messages=None), "expected the types of yanami's features"),
        (row_with(messages=[{"role": "user"}]), "expected the column or field 'content'"),
        ({"id": "d7"}, "expected the column or field 'scenario'"),
    ],
)
def test_a_row_that_is_none_says_why(row, says):
    with pytest.raises(DataError) as error:
        from_row(row)
    assert str(error.value).startswith("row 'd7': ")
    assert says in str(error.value)


def test_lazy_images_take_the_place_of_the_column():
    row = row_with()
    del row["images"]
    assert from_row(row, images=[b"x"]).images == [b"x"]
    assert replace(from_row(row, images=()), id="d8").id == "d8"


def test_importing_the_module_imports_no_datasets():
    code = "import sys, yanami_dataset.features; sys.exit('datasets' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
