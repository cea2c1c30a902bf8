"""The evaluate metric: offline, with the numbers of the run folder, also inside a running event loop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from tests.strategies import colour_png
from tests.support import ScriptedJudge, dialogue, reply
from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import SCENARIOS


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """`yanami install-metric`, then evaluate.load in this process, as a user's script does it."""
    import evaluate

    modules = os.environ["HF_MODULES_CACHE"]
    subprocess.run([sys.executable, "-m", "yanami_metric.cli", "install-metric"], check=True, capture_output=True)
    assert modules
    return lambda **kwargs: evaluate.load("yanami", **kwargs)


DIALOGUES = [dialogue(f"{s}-{n}", s) for s in SCENARIOS for n in range(2)]


def predictions(**changes):
    found = [
        {"id": d.id, "images": [colour_png(n) for n, _ in enumerate(d.slots)], "answers": ["a cat", "2"]}
        for d in DIALOGUES
    ]
    return [{**one, **changes} for one in found]


def compute(metric, given, **kwargs):
    judge = ScriptedJudge(lambda call: reply(call, passes=call.items[0].id != "c0"))
    return metric.compute(
        predictions=given, references=[one["id"] for one in given], judge=judge, answer_judge=judge, **kwargs
    )


def test_flat_names_and_the_numbers_of_the_formulas(loaded):
    found = compute(loaded(data=DIALOGUES), predictions())
    assert found["sc"] == found["fusion_sc"] == 50 and found["vq"] == 70 and found["vr"] == pytest.approx(58)
    # the small dialogues ask in two of the four dimensions: no DSU, so no overall, and no other formula instead
    assert found["fusion_context_retrieval"] == 100 and found["fusion_dsu"] is None and found["overall"] is None
    assert found["coverage"] == 1 and found["unscored"] == 0


def test_a_model_that_does_not_answer_is_scored_by_vr(loaded):
    found = compute(loaded(data=DIALOGUES), predictions(answers=None), weights={"sc": 0.5, "vq": 0.5})
    assert found["overall"] == found["vr"] == pytest.approx(60)


def test_a_missing_image_counts_as_wrong(loaded):
    found = compute(loaded(data=DIALOGUES), predictions(images=[None, colour_png(1)]))
    assert (found["sc"], found["vq"]) == (50, 35)


def test_batches_and_an_event_loop_give_the_same(loaded):
    metric = loaded(data=DIALOGUES)
    whole = compute(metric, predictions())
    for one in predictions():
        metric.add(prediction=one, reference=one["id"])

    async def inside():
        judge = ScriptedJudge(lambda call: reply(call, passes=call.items[0].id != "c0"))
        return metric.compute(judge=judge, answer_judge=judge)

    assert asyncio.run(inside()) == whole


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"id": "nobody", "images": [], "answers": []}], "expected ids of memory.*got 'nobody'; load the metric"),
        (predictions(images=[])[:1], "expected 2 images, one per slot"),
        (predictions(answers=["one"])[:1], "expected 2 answers, one per question"),
        (predictions()[:1] * 2, "'fusion-0' twice"),
    ],
)
def test_what_does_not_fit_the_dialogues_is_refused(loaded, given, message):
    with pytest.raises(DataError, match=message):
        compute(loaded(data=DIALOGUES), given)


def test_ids_must_agree_and_weights_be_known(loaded):
    metric = loaded(data=DIALOGUES)
    with pytest.raises(DataError, match="same ids in the same order"):
        metric.compute(predictions=predictions()[:1], references=["fusion-1"])
    with pytest.raises(SpecError, match="weights"):
        compute(loaded(data=DIALOGUES), predictions(), weights={"quality": 1})
