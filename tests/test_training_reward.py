"""The reward of an image is what it adds to SC in a run."""

from __future__ import annotations

import pytest

from tests.support import ScriptedJudge, dialogue, reply
from yanami_dataset.errors import SpecError
from yanami_dataset.images import open_rgb
from yanami_metric import Selection, api, open_data
from yanami_metric.asking import Rules
from yanami_metric.models.baseline import CopyLast
from yanami_metric.panel import Judging
from yanami_metric.records import JudgeError
from yanami_metric.run_folder import RunFolder
from yanami_metric.scoring import chosen_judges, tallied
from yanami_metric.training.reward import Drawn, reward, rewards


def test_rewards_are_the_shares_of_a_run():
    run = api.judge(api.rollout("mini", CopyLast(), history="self", selection=Selection(limit=8)))
    with RunFolder(run.path) as folder:
        tallies = tallied(run.data, folder, chosen_judges(folder, None))["self"]
        drawn, expected = [], []
        for one, counts in zip(run.data, tallies, strict=True):
            for slot, image in zip(one.slots, counts.images, strict=True):
                record = folder.current("self", one.id)[slot.turn, None]
                stored = record.images[slot.ordinal] if record.images else None
                picture = folder.image(stored).read() if stored else None
                drawn.append(Drawn(one, slot.turn, picture, slot.ordinal))
                expected.append(image.checks.share)
    found = rewards(drawn)
    assert found == expected and 0 < sum(found) / len(found) < 1 and len(found) > 20
    first = drawn[0]
    assert reward(first.dialogue, first.turn, open_rgb(first.image), slot=first.slot) == expected[0]


def test_the_target_passes_everything_and_nothing_drawn_passes_nothing():
    one = next(iter(open_data("mini", Selection(limit=1))))
    for slot in one.slots:
        assert reward(one, slot.turn, one.images[slot.index], slot=slot.ordinal) == 1.0
        assert reward(one, slot.turn, None, slot=slot.ordinal) == 0.0
        assert reward(one, slot.turn, b"no image", slot=slot.ordinal) == 0.0


def test_what_nobody_can_judge_is_none():
    one = dialogue()
    image = one.images[0]
    assert reward(one, 1, image) is None  # no probes, which the pixel judge needs

    def fails(call):
        raise JudgeError("transport_error", "no answer")

    assert reward(one, 1, image, judge=ScriptedJudge(fails)) is None
    assert reward(one, 1, image, judge=ScriptedJudge(lambda call: "not JSON")) is None
    assert reward(one, 1, image, judge=ScriptedJudge()) == 1.0


def test_samples_decide_by_majority():
    one, image = dialogue(), dialogue().images[0]
    judge = ScriptedJudge(lambda call: reply(call, passes=call.sample != 1))
    assert reward(one, 1, image, judge=judge, judging=Judging(rules=Rules(samples=3))) == 1.0
    judge = ScriptedJudge(lambda call: reply(call, passes=call.sample == 1))
    assert reward(one, 1, image, judge=judge, judging=Judging(rules=Rules(samples=3))) == 0.0


def test_only_checks_are_asked_and_own_images_are_shown_where_there_is_no_truth():
    one = dialogue(targets=False)
    judge = ScriptedJudge(reads_prompt=True)
    rewards([Drawn(one, 3, one.images[0], own={(1, 0): one.images[0]}), Drawn(one, 3, one.images[0])], judge=judge)
    shown = sorted(len(call.images) for call in judge.calls)
    assert {call.kind for call in judge.calls} == {"checks"} and shown[1] == shown[0] + 1


def test_a_slot_that_isnt_there_is_refused():
    with pytest.raises(SpecError, match=r"turn 1 slot 0, turn 3 slot 0.*got 0, 0"):
        reward(dialogue(), 0, None)


def test_without_any():
    assert rewards([]) == []
