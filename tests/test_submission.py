"""`yanami submit` and `yanami leaderboard`, over real HTTP from a Hub on the loopback interface."""

import copy
import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.hub import OTHER, OWNER, Fault
from tests.hub_support import python, stored, yanami
from tests.support import ScriptedJudge, ScriptedModel, reply
from yanami_dataset.errors import SpecError
from yanami_dataset.schema import DIMENSIONS, Question
from yanami_dataset.tasks import TASKS
from yanami_metric import api
from yanami_metric.data import Selection
from yanami_metric.leaderboard import Result, arranged, markdown
from yanami_metric.records import Caps
from yanami_metric.submission import BEGIN, END, check, packed, prepare, unpacked

ROOT = Path(__file__).parent.parent
DATE = "2026-12-07T12:00:00Z"
BENCH = "yanami/bench"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A bench of eight dialogues, and a model that answers and draws, one that draws, and one by another judge."""
    folder = tmp_path_factory.mktemp("runs")
    questions = tuple(Question(f"q{n}", name, 0, "What is it?", "a cat") for n, name in enumerate(DIMENSIONS))
    data = stored(folder / "data", questions=questions)
    strict = ScriptedJudge(lambda call: reply(call, passes=False, score=5), version=2)
    made = {}
    for name, model, by in (
        ("both", ScriptedModel(), ScriptedJudge()),
        ("draws", ScriptedModel(caps=Caps(outputs=frozenset({"images"}))), ScriptedJudge()),
        ("strict", ScriptedModel(), strict),
    ):
        run = api.judge(api.rollout(str(data), model, history=("gt", "self"), out=folder / name), by, ScriptedJudge())
        api.score(run, resamples=200)
        made[name] = run.path
    return data, made


@pytest.fixture
def scores(runs):
    return json.loads((runs[1]["both"] / "scores.json").read_text())


def submitted(scores, **how):
    return prepare(scores, **{"bench": BENCH, "date": DATE} | how)


def test_every_task_with_a_value_is_an_entry(scores):
    found = submitted(scores, revision="a" * 40, source="https://huggingface.co/datasets/me/run")
    assert found.file == ".eval_results/yanami.yaml"
    entries = yaml.safe_load(found.yaml())
    assert [one["dataset"]["task_id"] for one in entries] == [task.id for task in TASKS]
    one = next(one for one in entries if one["dataset"]["task_id"] == "fusion_sc")
    assert one["value"] == round(scores["histories"]["gt"]["scenarios"]["fusion"]["sc"]["value"], 2)
    assert one["dataset"] == {"id": BENCH, "task_id": "fusion_sc", "revision": "a" * 40}
    assert (one["date"], one["source"]["name"]) == (DATE, "yanami run")
    notes = unpacked(one["notes"])
    assert (notes["history"], notes["coverage"], notes["dialogues"]) == ("gt", "1.0000", "8/8")
    assert re.fullmatch(r"scripted \([0-9a-f]{12}\)", notes["images_judge"]) and notes["identity"] == "scripted/1"
    assert f'date: "{DATE}"' in found.yaml() or f"date: '{DATE}'" in found.yaml()  # text, as the Hub wants it


def test_what_has_no_value_is_no_entry(runs):
    only = json.loads((runs[1]["draws"] / "scores.json").read_text())
    tasks = {one["dataset"]["task_id"] for one in submitted(only).entries}
    assert "dsu" not in tasks and {"vr", "overall", "editing_vq"} <= tasks


def test_another_history_is_another_file(scores):
    found = submitted(scores, history="self")
    assert found.file == ".eval_results/yanami-self.yaml"
    assert unpacked(found.entries[0]["notes"])["history"] == "self"
    with pytest.raises(SpecError, match="history: expected one of gt, self, got 'none'"):
        submitted(scores, history="none")


def without(scores, *path):
    changed = copy.deepcopy(scores)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = None
    return changed


def partial(scores):
    changed = copy.deepcopy(scores)
    changed["dataset"] |= {"limit": 4, "dialogues": 4}
    return changed


def failed(scores):
    changed = copy.deepcopy(scores)
    changed["histories"]["gt"]["statuses"]["checks"]["transport_error"] = 5
    return changed


def tagged(scores):
    changed = copy.deepcopy(scores)
    changed["model"] |= {"identity": "mine", "options": {"tag": "mine"}}
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (partial, r"on 4 of 8 dialogues \(see --limit\)"),
        (failed, r"5 of \d+ items are unscored, more than 1 %"),
        (lambda s: without(s, "judge", "images", "fingerprint"), "which judge of images"),
        (lambda s: without(s, "model", "identity"), "nothing says which weights"),
        (tagged, "only a tag of yours"),
    ],
)
def test_what_is_incomplete_or_unclear_is_refused_or_said(scores, change, message):
    with pytest.raises(SpecError, match=message):
        submitted(change(scores))
    forced = submitted(change(scores), force=True)
    assert re.search(message, unpacked(forced.entries[0]["notes"])["forced"])
    assert "Submitted although" in forced.section


def test_failures_that_one_accepts_are_no_reason(scores):
    assert submitted(failed(scores), failures=0.5).forced == ()


def test_the_mini_bench_is_never_submitted(tmp_path):
    run = api.rollout("mini", "baseline:reference", selection=Selection(limit=4), out=tmp_path / "run")
    scores = api.score(api.judge(run))
    for force in (False, True):
        with pytest.raises(SpecError, match="mini bench can't be submitted"):
            submitted(scores, force=force)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("value",), float("nan"), "a value of 0 to 100"),
        (("value",), 101, "a value of 0 to 100"),
        (("value",), "50", "a value of 0 to 100"),
        (("dataset", "task_id"), "poetry_vr", "a known task"),
        (("dataset", "revision"), "main", "a commit of 40 hex digits"),
        (("date",), "yesterday", "a date, ISO 8601"),
        (("source",), {"url": "javascript:x"}, "an https address"),
        (("notes",), "a\nb", "notes in one line"),
        (("more",), 1, "the fields dataset"),
    ],
)
def test_our_own_schema(scores, where, value, message):
    entries = submitted(scores).entries
    check(entries)
    place = entries[1]
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    with pytest.raises(SpecError, match=message):
        check(entries)
    with pytest.raises(SpecError, match="at least one result"):
        check([])


@given(st.dictionaries(st.sampled_from(["a", "judge", "low"]), st.text(max_size=40)))
def test_notes_come_back_whatever_they_say(notes):
    line = packed(notes)
    assert unpacked(line) == notes
    assert line.isprintable() or line == ""


HOSTILE = "x\n---\nlicense: mit\n# Injected <script> [a](b)"


def test_names_change_neither_yaml_nor_card(scores):
    scores["model"]["identity"] = HOSTILE
    scores["judge"]["images"]["name"] = HOSTILE
    found = submitted(scores)
    assert unpacked(yaml.safe_load(found.yaml())[0]["notes"])["identity"] == HOSTILE
    assert not re.search(r"^(# Injected|---|license)", found.section, re.MULTILINE) and "<script>" not in found.section


def test_a_section_is_put_in_and_replaced(scores):
    found = submitted(scores)
    once = found.card("# Mine\n\ntext\n")
    assert once.startswith("# Mine\n\ntext\n\n" + BEGIN)
    assert found.card(once + "\nmore\n") == once + "\nmore\n"
    assert found.card("") == found.section + "\n"
    assert found.card(f"{END} {BEGIN}").count("## YANAMI") == 1


# Over HTTP


@pytest.fixture
def models(hub):
    hub.add("model", "yanami/painter", {"README.md": b"---\nlicense: mit\n---\n# Painter\n"})
    hub.add("model", "yanami/drawer")
    hub.add("dataset", BENCH, {"eval.yaml": b"tasks: [{id: overall, config: default, split: test}]\n"})


def submit(hub, home, run, model, *options, **how):
    return yanami(hub, home, "submit", run, "--model-id", model, *options, **how)


def test_results_go_up_and_come_back_as_a_leaderboard(hub, models, runs, tmp_path):
    submit(hub, tmp_path, runs[1]["both"], "yanami/painter")
    submit(hub, tmp_path, runs[1]["draws"], "yanami/drawer")
    repo = hub.repo("model", "yanami/painter")
    assert len(repo.messages) == 2
    card = repo.files()["README.md"].decode()
    assert card.startswith("---\nlicense: mit\n---\n# Painter\n") and "## YANAMI" in card
    told = yanami(hub, tmp_path, "leaderboard", "--repo", BENCH, "--json").stdout
    found = json.loads(told)
    [judge] = found["judges"]
    assert found["judge"] == judge and judge.startswith("scripted (")
    titles = [group["title"] for group in found["groups"]]
    assert titles[0].startswith("VR") and titles[1:] == [
        "Overall = 0.4 DSU + 0.36 SC + 0.24 VQ", "Overall = 0.6 SC + 0.4 VQ",
    ]  # fmt: skip
    assert [row[2] for row in found["groups"][1]["rows"]] == ["yanami/painter"]
    assert {row[2] for row in found["groups"][0]["rows"]} == {"yanami/painter", "yanami/drawer"}
    text = yanami(hub, tmp_path, "leaderboard", runs[1]["strict"], "--repo", BENCH).stdout
    assert "1 results are of other judges" in text and "yanami/painter" in text
    other = yanami(hub, tmp_path, "leaderboard", runs[1]["strict"], "--repo", BENCH, "--judge", "nobody", code=2)
    assert "expected one of scripted (" in other.stderr


def test_again_replaces_and_a_pull_request_waits(hub, models, runs, tmp_path):
    submit(hub, tmp_path, runs[1]["both"], "yanami/painter")
    submit(hub, tmp_path, runs[1]["strict"], "yanami/painter")
    card = hub.repo("model", "yanami/painter").files()["README.md"].decode()
    assert card.count("## YANAMI") == 1 and card.count(BEGIN) == 1
    done = submit(hub, tmp_path, runs[1]["both"], "yanami/drawer", "--create-pr", token=OTHER)
    assert "/discussions/1" in done.stdout
    repo = hub.repo("model", "yanami/drawer")
    assert ".eval_results/yanami.yaml" not in repo.files()
    assert ".eval_results/yanami.yaml" in repo.files("refs/pr/1")
    assert "answered 403" in submit(hub, tmp_path, runs[1]["both"], "yanami/drawer", token=OTHER, code=2).stderr


def test_a_dry_run_prints_and_sends_nothing(hub, models, runs, tmp_path):
    done = submit(hub, tmp_path, runs[1]["both"], "yanami/painter", "--dry-run", token="")
    assert hub.seen == [] and "# .eval_results/yanami.yaml" in done.stdout and "## YANAMI" in done.stdout
    assert OWNER not in done.stdout


def test_the_commit_of_the_data_is_told(hub, models, runs, tmp_path):
    yanami(hub, tmp_path, "publish", "bench", runs[0])
    code = (
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.support import *\nfrom yanami_metric import api\n"
        "run = api.judge(api.rollout('yanami/bench', ScriptedModel(), out='run'), ScriptedJudge(), ScriptedJudge())\n"
        "print(api.score(run)['dataset']['commit'])"
    )
    commit = hub.repo("dataset", BENCH).refs["main"]
    assert python(hub, tmp_path, code).strip() == commit
    submit(hub, tmp_path, tmp_path / "run", "yanami/painter")
    entries = yaml.safe_load(hub.repo("model", "yanami/painter").files()[".eval_results/yanami.yaml"])
    assert {one["dataset"]["revision"] for one in entries} == {commit}


@pytest.mark.parametrize(
    ("model", "fault", "token", "message"),
    [
        ("yanami/nothing", None, OWNER, "answered 404.*check the name"),
        ("yanami/painter", Fault(429), OWNER, "answered 429"),
        ("yanami/painter", Fault(500), OWNER, "answered 500"),
        ("yanami/painter", None, "hf_wrong", "answered 401"),
        ("painter", None, OWNER, "NAMESPACE/NAME"),
    ],
)
def test_what_the_hub_refuses(hub, models, runs, tmp_path, model, fault, token, message):
    hub.fault = lambda method, path: fault if "/commit/" in path else None
    done = submit(hub, tmp_path, runs[1]["both"], model, token=token, code=2)
    assert re.search(message, done.stderr) and "Traceback" not in done.stderr and "hf_wrong" not in done.stderr


def test_results_of_others_in_any_form_are_no_error(hub, models, runs, tmp_path):
    strange = [
        {"dataset": {"id": BENCH, "task_id": "overall"}, "value": 50, "notes": "no-tools | <b>\x07"},
        {"dataset": {"id": BENCH, "task_id": "vr"}, "value": "high"},
        {"dataset": {"id": BENCH, "task_id": "sc"}, "value": 12.5},
        {"dataset": {"id": "other/bench", "task_id": "overall"}, "value": 99},
    ]
    hub.add("model", "some/one", {".eval_results/x.yaml": yaml.safe_dump(strange).encode()})
    found = json.loads(yanami(hub, tmp_path, "leaderboard", "--repo", BENCH, "--json").stdout)
    assert found["judges"] == ["not recorded, answers: not recorded"]
    [overall] = [group for group in found["groups"] if group["title"].startswith("Overall")]
    assert overall["rows"] == [["1", "–", "some/one", "50.00", "–", "–", "–", "12.50", "–", "Hub"]]
    assert "answered 404" in yanami(hub, tmp_path, "leaderboard", "--repo", "yanami/no", code=2).stderr


# Boards


def result(name, value, width=2.0, judge="j", formula="f", **more):
    values = {"vr": (value, value - width, value + width), "overall": (value, None, None), **more}
    return Result(name, "Hub", judge, formula, values)


def test_ranks_have_intervals_that_tell_near_from_far():
    found = arranged([result("a", 80), result("b", 79.5), result("c", 20)])
    rows = {row[2]: row for row in found.groups[0].rows}
    assert [row[2] for row in found.groups[0].rows] == ["a", "b", "c"]
    assert (rows["a"][1], rows["b"][1], rows["c"][1]) == ("1–2", "1–2", "3–3")
    assert found.groups[1].rows[0][1] == "–"  # nobody told an interval of overall


def test_one_judge_at_a_time_and_one_formula_a_table():
    results = [result("a", 80), result("b", 70, judge="k"), result("c", 60, formula="g"), result("d", 50)]
    found = arranged(results)
    assert (found.judges, found.judge) == (("j", "k"), "j")
    assert [group.title for group in found.groups[1:]] == ["Overall = f", "Overall = g"]
    assert [row[2] for row in arranged(results, "k").groups[0].rows] == ["b"]
    assert arranged([]).groups == ()
    assert "not recorded" in markdown(arranged([]))


def test_hostile_names_stay_text():
    text = markdown(arranged([result("a|b <script>\n# x", 50)]))
    assert "<script>" not in text and not re.search("^# x", text, re.MULTILINE)
