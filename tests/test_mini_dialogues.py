"""Whole dialogues of the mini bench: valid, true, breakable, repeatable, and no reward for doing nothing."""

import hashlib
import io
import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import islice
from random import Random
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.mini import bench
from yanami_dataset.mini.bench import Tally, generate
from yanami_dataset.mini.breaking import break_scene
from yanami_dataset.mini.broken import broken_image, draft_of
from yanami_dataset.mini.probes import holds
from yanami_dataset.mini.render import encode_png, render
from yanami_dataset.mini.scene import Scene, is_valid
from yanami_dataset.schema import CAPABILITIES, DIMENSIONS, SCENARIOS, STATE_OPS, validate


def first_draft(number, turns=None, seed=0):
    """The draft that the bench takes at a position: the first attempt that leads somewhere."""
    attempts = (bench.draft(number, turns=turns, seed=seed, attempt=attempt) for attempt in range(100))
    return next(draft for draft in attempts if draft is not None)


@pytest.fixture(scope="module")
def drafts():
    return [first_draft(number) for number in range(100)]


@pytest.fixture(scope="module")
def dialogues():
    return list(generate(dialogues=40, size=128))


def slots_of(draft):
    return [slot for turn in draft.turns for slot in turn.slots]


def test_dialogues_are_valid_and_in_equal_parts(dialogues):
    for dialogue in dialogues:
        validate(dialogue)
    assert Counter(dialogue.scenario for dialogue in dialogues) == dict.fromkeys(SCENARIOS, 10)
    assert [dialogue.id for dialogue in dialogues[4:6]] == ["mini-fusion-0001", "mini-editing-0001"]
    assert len({dialogue.id for dialogue in dialogues}) == 40


def test_images_are_what_their_info_says(dialogues):
    for dialogue in dialogues:
        for data, info in zip(dialogue.images, dialogue.image_info, strict=True):
            assert hashlib.sha256(data).hexdigest() == info.sha256
            image = Image.open(io.BytesIO(data))
            assert (
                (image.format, image.mode, image.size)
                == ("PNG", "RGB", (info.width, info.height))
                == ("PNG", "RGB", (128, 128))
            )
            assert (info.source, info.license) == ("yanami-mini", "Apache-2.0")
        assert dialogue.source == "yanami-mini"
        assert json.loads(dialogue.extra).keys() == {"attempt", "seed", "size", "turns"}


def test_every_dialogue_has_what_the_bench_needs(dialogues):
    for dialogue in dialogues:
        assert 6 <= len(dialogue.turns) <= 8
        assert len(dialogue.generation_turns) >= 3
        assert len(dialogue.generation_turns) < len(dialogue.turns)
        assert all(slot.index is not None for slot in dialogue.slots)
        assert [question.dimension for question in dialogue.questions] == list(DIMENSIONS)
        kinds = {(check.kind, check.capability) for check in dialogue.checks}
        assert {("capability", "constraint_keeping"), ("capability", "correction_updating")} <= kinds
        assert all(any(check.kind == "atomic" for check in dialogue.checks_of(slot)) for slot in dialogue.slots)
        assert all(check.probe is not None for check in dialogue.checks)


def test_the_user_sends_images_only_at_the_start(dialogues):
    for dialogue in dialogues:
        assert not dialogue.slots_of(0)
        assert {info.turn for info in dialogue.image_info if info.role == "reference"} == {0}
        assert all(not dialogue.user(turn).image_parts for turn in range(1, len(dialogue.turns)))


def test_no_text_names_images_by_label(dialogues):
    texts = [message.text for dialogue in dialogues for message in dialogue.messages]
    texts += [question.question for dialogue in dialogues for question in dialogue.questions]
    assert not [text for text in texts if "Image " in text or "  " in text or " a orange" in text or ".." in text]
    assert all(text[0].isupper() and text[-1] in ".?:" for text in texts)


def test_capabilities_and_state_operations_all_occur(drafts):
    for scenario in SCENARIOS:
        turns = [turn for draft in drafts if draft.scenario == scenario for turn in draft.turns]
        assert {op.op for turn in turns for op in turn.state} == set(STATE_OPS)
    assert {name for draft in drafts for turn in draft.turns for name in turn.capabilities} == set(CAPABILITIES)


def test_state_operations_follow_each_other(drafts):
    for draft in drafts:
        known = set()
        for turn in draft.turns:
            for op in turn.state:
                assert (op.key in known) is (op.op != "establish"), op
                known = known - {op.key} if op.op == "invalidate" else known | {op.key}


def test_scenarios_have_their_own_turns(drafts):
    texts = defaultdict(list)
    for draft in drafts:
        texts[draft.scenario].append(" ".join(turn.user.lower() for turn in draft.turns))
    assert all("ndo th" in text for text in texts["editing"])
    assert all("mirror" in text or "left and right" in text for text in texts["modeling"])
    assert all("step 3" in text and ("change" in text or "wrong" in text) for text in texts["reasoning"])
    assert all("first image i sent" in text and "second image i sent" in text for text in texts["fusion"])
    pairs = [probe for draft in drafts if draft.scenario == "modeling" for probe in probes_of(draft)]
    assert sum(probe["predicate"] == "in_front" for probe in pairs) > 50


def probes_of(draft):
    return [check.probe for slot in slots_of(draft) for check in slot.checks]


def test_an_undo_shows_the_same_picture_again(drafts):
    returned = 0
    for draft in drafts:
        pictures = [slot.scene for slot in slots_of(draft)]
        returned += any(scene in pictures[: n - 1] for n, scene in enumerate(pictures))
    assert returned >= 15


def test_every_check_is_true_and_can_be_broken(drafts):
    for number, draft in enumerate(drafts):
        for slot in slots_of(draft):
            assert is_valid(slot.scene)
            for check in slot.checks:
                assert holds(slot.scene, check.probe)
                broken = break_scene(slot.scene, check.probe, Random(number))
                assert is_valid(broken)
                assert not holds(broken, check.probe)
            assert len({json.dumps(check.probe, sort_keys=True) for check in slot.checks}) == len(slot.checks)


def test_pictures_never_break_the_rule(drafts):
    """The rule is read from the text of turn 0 alone, not from the checks."""
    for draft in drafts:
        text, pictures = draft.turns[0].user, [slot.scene for slot in slots_of(draft)]
        if "may be " in text:
            colour = text.split("may be ")[1].split(".")[0]
            assert all(item.colour != colour for scene in pictures for item in scene.items)
        elif "centred there" in text or "its centre in the" in text:
            cell = text.split("keep the " if "centred there" in text else "centre in the ")[1].split(" cell")[0]
            assert all(item.cell != cell for scene in pictures for item in scene.items)
        else:
            name = next(q.answer for q in draft.questions if q.dimension == "constraint_tracking")
            assert f"the {name}" in text
            kept = [scene.find(*name.split()) for scene in pictures]
            assert len({(item.radius, draft.scenario == "modeling" or (item.x, item.y)) for item in kept}) == 1


def copying(draft, history):
    """The share of atomic checks passed by returning the last image seen: a target (gt) or one's own copy (self)."""
    passed, last = [], draft.turns[0].images[-1]
    for turn in draft.turns:
        for slot in turn.slots:
            passed += [holds(last, check.probe) for check in slot.checks if check.kind == "atomic"]
        if turn.slots and history == "gt":
            last = turn.slots[-1].scene
    return mean(passed)


def test_copying_loses_when_it_sees_only_its_own_images(drafts):
    for scenario in SCENARIOS:
        chosen = [draft for draft in drafts if draft.scenario == scenario]
        gt, own = (mean(copying(draft, history) for draft in chosen) for history in ("gt", "self"))
        assert own + 0.12 < gt < 0.6, scenario


def test_a_blank_image_passes_nothing(drafts):
    assert not any(holds(Scene("white", ()), probe) for draft in drafts for probe in probes_of(draft))


def test_answers_are_not_given_away(drafts):
    for draft in drafts:
        for question in draft.questions:
            turn = draft.turns[question.turn]
            assert question.answer not in turn.user
            assert question.answer not in turn.reply
            assert question.answer not in question.question
            assert "uch as" in question.question
            assert not question.question.startswith(("Is ", "Does "))
            said = " ".join(part.user for part in draft.turns[: question.turn + 1])
            assert question.answer in said or question.dimension in ("reference_resolution", "context_retrieval")


def test_no_answer_is_the_common_one(drafts):
    for dimension in DIMENSIONS:
        answers = Counter(q.answer for draft in drafts for q in draft.questions if q.dimension == dimension)
        assert max(answers.values()) < 30, (dimension, answers.most_common(3))
        assert len(answers) >= 9


def test_answers_about_earlier_images_are_true(drafts):
    """Where a question names an object and an image, that image decides, and the last image says something else."""
    ordinals = ["first", "second", "third", "fourth", "fifth", "sixth"]
    checked = 0
    for draft in drafts:
        sent, drawn = draft.turns[0].images, [slot.scene for slot in slots_of(draft)]
        for question in draft.questions:
            words = question.question
            if not words.startswith("In which cell is the "):
                continue
            name, where = words.removeprefix("In which cell is the ").split("?")[0].split(" in the ")
            images = drawn if "drew" in where else sent
            number = next((n for n, word in enumerate(ordinals) if where.startswith(word)), 0)
            assert images[number].find(*name.split()).cell == question.answer
            shown = [slot.scene for turn in draft.turns[: question.turn + 1] for slot in turn.slots]
            item = shown[-1].find(*name.split())
            assert item is None or item.cell != question.answer
            checked += 1
    assert checked > 60


def test_texts_vary(drafts):
    texts = [turn.user for draft in drafts for turn in draft.turns]
    assert len(set(texts)) > 0.85 * len(texts)


def test_a_bench_is_the_same_twice_and_a_prefix_of_a_larger_one(dialogues):
    assert list(generate(dialogues=6, size=128)) == dialogues[:6]
    assert next(generate(dialogues=1, size=128, seed=1)).messages != dialogues[0].messages


def test_the_size_of_images_changes_no_dialogue(dialogues):
    larger = next(generate(dialogues=1, size=320))
    assert (larger.messages, larger.checks, larger.questions) == (
        dialogues[0].messages,
        dialogues[0].checks,
        dialogues[0].questions,
    )
    assert {(info.width, info.height) for info in larger.image_info} == {(320, 320)}


def test_dialogues_do_not_change_unnoticed():
    """Made once: the texts, checks and answers of eight dialogues. A change here makes results incomparable."""
    told = [[*(m.text for m in d.messages), *d.checks, *d.questions] for d in generate(dialogues=8, size=128)]
    assert hashlib.sha256(repr(told).encode()).hexdigest()[:16] == "105931a434676162"


@pytest.mark.parametrize("turns", [4, 5, 43, 60, 100])
def test_any_number_of_turns(turns):
    for number in range(4):
        draft = first_draft(number, turns=turns)
        assert len(draft.turns) == turns
        assert 3 <= sum(bool(turn.slots) for turn in draft.turns) < turns
        assert len(draft.questions) == 4


def test_scenes_come_back_from_a_dialogue(dialogues):
    for dialogue in dialogues[:8]:
        draft = draft_of(dialogue)
        for slot in dialogue.slots:
            scene = draft.turns[slot.turn].slots[slot.ordinal].scene
            assert encode_png(render(scene, 128)) == dialogue.images[slot.index]


def test_a_broken_image_is_near_the_target_and_always_the_same(dialogues):
    for dialogue in dialogues[:4]:
        for check in dialogue.checks:
            data = broken_image(dialogue, check)
            index = next(slot.index for slot in dialogue.slots if (slot.turn, slot.ordinal) == (check.turn, check.slot))
            assert data == broken_image(dialogue, check)
            assert data != dialogue.images[index]
            assert Image.open(io.BytesIO(data)).size == (128, 128)


def test_scenes_of_other_dialogues_are_not_invented(dialogues):
    told = replace(dialogues[0], messages=dialogues[4].messages)
    for foreign in (replace(dialogues[0], source="elsewhere"), replace(dialogues[0], extra="{}"), told):
        with pytest.raises(DataError, match="'mini-fusion-0000'"):
            draft_of(foreign)
    with pytest.raises(DataError, match="without a probe"):
        broken_image(dialogues[0], replace(dialogues[0].checks[0], probe=None))


@given(st.integers(0, 10**9), st.integers(0, 3), st.integers(4, 12))
@settings(max_examples=60, deadline=None)
def test_any_seed_gives_a_dialogue(seed, number, turns):
    draft = first_draft(number, turns=turns, seed=seed)
    assert len(draft.turns) == turns
    assert all(is_valid(slot.scene) for slot in slots_of(draft))
    kinds = {(check.kind, check.capability) for slot in slots_of(draft) for check in slot.checks}
    assert {("capability", "constraint_keeping"), ("capability", "correction_updating")} <= kinds


def test_a_rejected_target_is_drawn_anew_and_counted(dialogues):
    seen = []

    def accept(data, probes):
        seen.append(data)
        assert data.startswith(b"\x89PNG")
        assert probes
        assert all("predicate" in json.loads(probe) for probe in probes)
        return len(seen) != 2

    tally = Tally()
    drawn = list(generate(dialogues=2, size=128, accept=accept, tally=tally))
    assert tally.proposed == len(seen)
    assert (tally.rejected, tally.share) == (1, 1 / len(seen))
    assert drawn[0] != dialogues[0]
    assert drawn[0].id == dialogues[0].id
    assert json.loads(drawn[0].extra)["attempt"] > json.loads(dialogues[0].extra)["attempt"]
    assert drawn[1] == dialogues[1]
    targets = [dialogue.images[slot.index] for dialogue in drawn for slot in dialogue.slots]
    assert all(data in seen for data in targets)


def test_a_judge_that_accepts_nothing_is_an_error():
    with pytest.raises(DataError, match="mini dialogue 0 with seed 0: none of"):
        next(generate(dialogues=1, size=128, turns=4, accept=lambda data, probes: False))


def test_the_bench_is_drawn_lazily():
    assert len(list(islice(generate(dialogues=10**6, size=128), 2))) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialogues": 0}, "dialogues: expected at least 1, got 0"),
        ({"turns": 3}, "turns: expected 4 to 100, got 3"),
        ({"turns": 101}, "turns: expected 4 to 100, got 101"),
        ({"size": 64}, "size: expected a side of 128 to 1024 pixels, got 64"),
    ],
)
def test_options_out_of_range_are_refused_at_once(options, message):
    with pytest.raises(SpecError, match=message):
        generate(**options)
