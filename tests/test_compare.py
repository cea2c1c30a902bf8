"""Runs compared: what stops it, what is said, and the page in a browser. All of it on real runs."""

import csv
import json
import re
import shutil
from dataclasses import replace
from io import StringIO

import pytest
from typer.testing import CliRunner

from tests.support import ScriptedJudge, ScriptedModel, dialogue, reply
from tests.test_report import TAKEN, Tags, browser  # noqa: F401 - a fixture
from yanami_dataset.builder import write_dataset
from yanami_dataset.errors import DataError, RunFolderError, SpecError
from yanami_dataset.schema import DIMENSIONS, SCENARIOS, Check, Question
from yanami_metric import api
from yanami_metric.alike import Difference, NotAlikeError, differences
from yanami_metric.asking import Rules
from yanami_metric.cli import app
from yanami_metric.comparing import compare_runs, default_out, of_dialogue
from yanami_metric.data import Selection
from yanami_metric.formulas import Weights
from yanami_metric.panel import Judging
from yanami_metric.prompts import load_prompts
from yanami_metric.records import Caps, JudgeCall, Output, Reply
from yanami_metric.score import Basis

FEW = {"resamples": 50}
HOSTILE = f'<script>{TAKEN}</script><img src=x onerror="{TAKEN}"> {{{{7*7}}}}'


@pytest.fixture(scope="module")
def mini(tmp_path_factory):
    """The three baselines on eight dialogues of the mini bench."""
    folder = tmp_path_factory.mktemp("mini")
    runs = {}
    for name in ("copy-last", "blank", "reference"):
        done = api.evaluate("mini", f"baseline:{name}", selection=Selection(limit=8), out=folder / name)
        runs[name] = done.run.path
    return runs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two small dialogues of each scenario, as a folder."""
    folder = tmp_path_factory.mktemp("data") / "small"
    write_dataset(small(), folder, name="small")
    return folder


def small(**changes):
    """With a question in every dimension; "a cat" is right in half of them."""
    asked = [Question(f"q{n}", name, 0, "What is it?", ("a cat", "a dog")[n % 2]) for n, name in enumerate(DIMENSIONS)]
    changes = {"questions": tuple(asked)} | changes
    return [replace(dialogue(f"{s}-{i}", s), **changes) for s in SCENARIOS for i in range(2)]


@pytest.fixture(scope="module")
def judged(data, tmp_path_factory):
    """Makes a run that a scripted judge has judged and scored; the same arguments make it once."""
    folder, made = tmp_path_factory.mktemp("judged"), {}

    def make(
        name, *, judge=None, rules=None, model=None, weights=None, sc_mean="dialogue", source=data, scored=True, **how
    ):
        if name not in made:
            run = api.rollout(source, model or ScriptedModel(), out=folder / name, **how)
            by = judge or ScriptedJudge()
            api.judge(run, by, by, judging=Judging(rules=rules or Rules()))
            if scored:
                api.score(run, weights=weights or Weights(), sc_mean=sc_mean)
            made[name] = run.path
        return made[name]

    return make


def harsh(call: JudgeCall) -> str:
    return reply(call, passes=False, score=3)


def whats(found):
    return {one["what"] for one in found.content["warnings"]}


def test_the_command_writes_and_prints_a_comparison(mini):
    done = CliRunner().invoke(app, ["compare", *map(str, mini.values()), "--resamples", "50"])
    assert done.exit_code == 0, done.output
    assert "not YANAMI-Bench scores" in done.output
    assert re.search(r"\| VR \| copy-last − reference \| -\d+\.\d\d \| -.* to -.* \| p = 0\.0\d\d \|", done.output)
    assert "significant" not in done.output
    assert "&lt; 0.001" not in done.output
    folder = mini["blank"].parent / "comparison"
    content = json.loads((folder / "comparison.json").read_text())
    assert content["dialogues"] == 8
    assert content["scores"]["reference"]["vr"]["value"] == 100
    assert content["ranks"]["vr"]["blank"]["rank"] == 3
    assert {path.suffix for path in folder.iterdir()} == {".json", ".md", ".csv", ".html"}
    printed = CliRunner().invoke(app, ["compare", *map(str, mini.values()), "--resamples", "50", "--json"])
    assert json.loads(printed.stdout) == content
    text = (folder / "comparison.md").read_text()
    for wrong in ("None", "nan", "NaN"):
        assert wrong not in text
        assert wrong not in "".join(Tags((folder / "comparison.html").read_text()).text)


def test_every_score_and_difference_is_in_the_csv(mini, tmp_path):
    found = compare_runs(list(mini.values()), **FEW)
    written = found.write(tmp_path)
    rows = list(csv.DictReader(StringIO((tmp_path / "comparison.csv").read_text())))
    assert written[-1].name == "comparison.html"
    assert len([row for row in rows if row["Kind"] == "difference"]) == len(found.content["pairs"]) == 3 * 5 * 5
    [one] = [
        row
        for row in rows
        if (row["Run"], row["Minus"], row["Scenario"], row["Score"]) == ("blank", "reference", "all", "VR")
    ]
    assert (float(one["Value"]), float(one["p"])) == (-100, pytest.approx(1 / 128, abs=0.01))


def test_models_that_draw_and_answer_are_never_ranked_with_those_that_only_draw(mini, judged):
    draws = ScriptedModel(caps=Caps(outputs=frozenset({"images"})), identity="draws/1")
    paths = [judged("both"), judged("both too", judge=ScriptedJudge(harsh)), judged("draws", model=draws)]
    found = compare_runs(paths, **FEW)
    assert [set(group["ranks"]) for group in found.content["ranks"]["overall"]] == [{"both", "both too"}, {"draws"}]
    overall = [(one["a"], one["b"]) for one in found.content["pairs"] if one["score"] == "overall"]
    assert set(overall) == {("both", "both too")}
    text = found.markdown()
    assert "## Overall = 0.4 DSU + 0.36 SC + 0.24 VQ" in text
    assert "## Overall = 0.6 SC + 0.4 VQ" in text


def test_the_same_run_twice_differs_in_nothing(mini, tmp_path):
    shutil.copytree(mini["copy-last"], tmp_path / "again")
    found = compare_runs([mini["copy-last"], tmp_path / "again"], **FEW)
    assert all(one["difference"]["value"] == 0 and one["p"] == 1 for one in found.content["pairs"])
    assert found.content["largest"] == found.content["warnings"] == []
    assert "There is no dialogue on which they differ" in found.write(tmp_path / "out")[-1].read_text()


def test_what_makes_scores_incomparable_stops_it(judged, data, tmp_path):
    first = judged("both")
    version = judged("version 2", judge=ScriptedJudge(version=2))
    with pytest.raises(NotAlikeError, match=r"judge of images: scripted .*fingerprints differ in version 1 / 2"):
        compare_runs([first, version])
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "checks.md").write_text(load_prompts()["checks"].text.replace("\n---\n", "\nBe kind.\n---\n"))
    reads = judged("reads", judge=ScriptedJudge(reads_prompt=True))
    kind = judged("kind", judge=ScriptedJudge(reads_prompt=True), rules=Rules(prompts=load_prompts(prompts)))
    with pytest.raises(NotAlikeError, match=r"prompt of checks: \w{12} \(reads\) / \w{12} \(kind\)") as caught:
        compare_runs([reads, kind])
    assert [one.what for one in caught.value.differences if one.stops] == ["prompt of checks"]
    seen = judged("seen", judge=ScriptedJudge(reads_prompt=True), rules=Rules(context="candidate"))
    with pytest.raises(NotAlikeError, match="how judges are asked"):
        compare_runs([reads, seen])
    with pytest.raises(NotAlikeError, match=r"weights: dsu 0.4, .* \(both\) / dsu 0.5"):
        compare_runs([first, judged("half", weights=Weights(dsu=0.5))])
    with pytest.raises(NotAlikeError, match=r"SC averaged over: dialogues \(both\) / checks \(by check\)"):
        compare_runs([first, judged("by check", sc_mean="check")])
    other = tmp_path / "other"
    write_dataset(small(source="other"), other, name="other")
    with pytest.raises(NotAlikeError, match=r"data revision: \w{12} \(both\) / \w{12} \(other data\)"):
        compare_runs([first, judged("other data", source=other)])
    refused = CliRunner().invoke(app, ["compare", str(first), str(version)])
    assert refused.exit_code != 0
    assert isinstance(refused.exception, NotAlikeError)  # which `main` turns into a message and exit code 2


def test_the_gap_of_runs_that_others_judged_says_so(tmp_path):
    def gap(*judges):
        paths = []
        for n, by in enumerate(judges):
            run = api.rollout("mini", "baseline:reference", selection=Selection(limit=12), out=tmp_path / f"run{n}")
            paths.append(str(api.judge(run, by, "exact").path))
        arguments = ["analyze", "gap", *paths, "--minimum", "1", "--resamples", "10", "--out", str(tmp_path)]
        assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
        return json.loads((tmp_path / "gap.json").read_text())["notes"]

    assert not any("Not measured alike" in note for note in gap("pixel", "pixel"))
    shutil.rmtree(tmp_path / "run1")
    assert gap("pixel", ScriptedJudge())[0].startswith("Not measured alike: judge of images: pixel ")


def test_prompts_that_no_judge_reads_stop_nothing(mini, tmp_path):
    (tmp_path / "checks.md").write_text(load_prompts()["checks"].text + "\nMore.\n")
    run = api.rollout("mini", "baseline:blank", selection=Selection(limit=8), out=tmp_path / "blank, again")
    api.judge(run, judging=Judging(rules=Rules(prompts=load_prompts(tmp_path))))
    assert compare_runs([mini["blank"], run.path], **FEW).content["warnings"] == []


class Shrinking(ScriptedJudge):
    """Says that it got smaller images."""

    async def judge(self, call):
        found = await super().judge(call)
        return Reply(found.text, note="images as jpeg90-max1024; served by m-2" if call.kind != "answer" else "")


def test_another_codec_of_the_judges_images_stops_it(judged):
    with pytest.raises(NotAlikeError, match=r"codec .*: as stored \(both\) / jpeg90-max1024 \(small\)") as caught:
        compare_runs([judged("both"), judged("small", judge=Shrinking())])
    assert "what the judge's server says" in {one.what for one in caught.value.differences}


def test_force_compares_and_every_output_says_so(judged, tmp_path):
    paths = [judged("both"), judged("by check", sc_mean="check"), judged("version 2", judge=ScriptedJudge(version=2))]
    found = compare_runs(paths, force=True, **FEW)
    page = found.write(tmp_path)[-1].read_text()
    assert {"judge of images", "judge of answers", "SC averaged over"} <= whats(found)
    assert found.content["sc_mean"] == "dialogue"
    assert "counted here with the weights and the mean of both." in found.markdown()
    assert found.markdown().count("**Not comparable:**") == 3
    assert page.count("Not comparable:") == 3
    done = CliRunner().invoke(app, ["compare", *map(str, paths), "--force", "--out", str(tmp_path), "--quiet"])
    assert (done.exit_code, done.output) == (0, "")
    assert "Not comparable" in (tmp_path / "comparison.md").read_text()
    assert json.loads((tmp_path / "comparison.json").read_text())["forced"]


def test_other_conditions_are_only_said(judged, data):
    front = judged("front", placement="front")
    fewer = judged("fewer", selection=Selection(limit=4))
    found = compare_runs([judged("both"), front, fewer], **FEW)
    assert whats(found) == {"placement of images", "selection"}
    assert found.content["dialogues"] == 4
    assert found.content["left_out"] == {"both": 4, "front": 4, "fewer": 0}
    assert "over the 4 dialogues that all runs have; left out: 4 of both, 4 of front." in found.markdown()


def test_identities_of_one_spec_and_tags_are_told(judged):
    found = compare_runs([judged("both"), judged("new", model=ScriptedModel(identity="tag:new"))], **FEW)
    told = [one["text"] for one in found.content["warnings"]]
    assert any(re.match(r"identity of .*: scripted/1 \(both\) / tag:new \(new\)", line) for line in told)
    assert "identity of the model is only a tag of the user's: tag:new (new)" in told
    models = [(n, {"model": {"spec": n, "identity": i}}) for n, i in (("a", "x"), ("b", "y"), ("c", ""))]
    assert [one.text for one in differences(models)] == ["identity of the model: not recorded (c)"]


def test_one_dialogue_has_no_intervals_and_no_score_over_all(judged, tmp_path):
    one = judged("one", selection=Selection(limit=1))
    found = compare_runs([one, judged("both", judge=ScriptedJudge())], **FEW)
    assert found.content["dialogues"] == 1
    assert found.content["scores"]["one"]["vr"]["value"] is None
    page = found.write(tmp_path)[-1].read_text()
    assert "1 shared dialogue<" in page
    assert "None" not in "".join(Tags(page).text)
    assert "None" not in found.markdown()


def test_runs_that_share_nothing_or_make_no_pair_are_refused(judged):
    parts = [judged(f"part {i}", selection=Selection(shard=(i, 2))) for i in range(2)]
    with pytest.raises(DataError, match="share dialogues, got none"):
        compare_runs(parts)
    with pytest.raises(SpecError, match="two or more runs"):
        compare_runs(parts[:1])
    with pytest.raises(DataError, match="under history self, got one under gt"):
        compare_runs([judged("both"), parts[0]], history="self")
    with pytest.raises(RunFolderError, match="twice"):
        compare_runs([parts[0], parts[0]])
    with pytest.raises(SpecError, match="top"):
        compare_runs(parts, top=-1)


def test_models_that_only_answer_are_compared_by_their_answers(judged, tmp_path):
    def other(request):
        return Output(text="a bird") if request.expects == "text" else None

    caps = Caps(outputs=frozenset({"text"}))
    paths = [judged("cat", model=ScriptedModel(caps=caps)), judged("dog", model=ScriptedModel(other, caps=caps))]
    found = compare_runs(paths, **FEW)
    assert found.content["measure"] == "answers"
    assert found.content["largest"][0]["values"] == {"cat": 50, "dog": 0}
    text = "".join(Tags(found.write(tmp_path)[-1].read_text()).text)
    assert "a bird" in text
    assert "Answers right in cat" in text


def test_a_dialogue_is_compared_as_the_scores_are_made(mini):
    found = compare_runs([mini["copy-last"], mini["reference"]], **FEW)
    [run, _] = found.runs
    basis = Basis(can_answer=True, can_draw=True)
    for tally, one in zip(
        sorted(run.histories["gt"], key=lambda t: (SCENARIOS.index(t.scenario), t.dialogue)),
        found.content["per_dialogue"],
        strict=True,
    ):
        assert one["vr"]["copy-last"] == pytest.approx(60 * tally.checks.share + 40 * tally.quality.share)
        assert of_dialogue(tally, basis)["answers"] == one["answers"]["copy-last"]
    unscored = replace(tally, images=tuple(replace(i, quality=replace(i.quality, scored=0)) for i in tally.images))
    assert of_dialogue(unscored, basis)["vr"] is None
    ranges = [one["range"] for one in found.content["largest"]]
    assert ranges == sorted(ranges, reverse=True)
    assert len(compare_runs([mini["blank"], mini["reference"]], top=2, **FEW).content["largest"]) == 2


def test_files_go_beside_runs_of_one_folder(tmp_path):
    assert default_out([tmp_path / "a", tmp_path / "b"]) == tmp_path / "comparison"
    assert default_out([tmp_path / "a", tmp_path / "x" / "b"]).parts == ("comparison",)


def test_a_difference_groups_runs_by_what_they_have():
    one = Difference("x", (("a", "1"), ("b", "2"), ("c", "1")), stops=True)
    assert one.text in str(NotAlikeError([one]))
    assert "--force" in str(NotAlikeError([one]))


# In a browser


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A comparison in which everything that anybody can name or say is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    some = []
    for scenario in SCENARIOS:
        plain = dialogue(f"{HOSTILE} {scenario}", scenario)
        checks = tuple(Check(check.id, check.turn, 0, HOSTILE) for check in plain.checks)
        messages = [
            replace(m, content=tuple(replace(p, text=HOSTILE) if p.type == "text" else p for p in m.content))
            for m in plain.messages
        ]
        some.append(replace(plain, messages=tuple(messages), checks=checks))
    write_dataset(some, folder / "data", name="hostile")
    paths = []

    def says(call):
        if call.kind == "checks":
            items = [{"id": item.id, "reason": HOSTILE, "verdict": "fail"} for item in call.items]
            return json.dumps({"checks": items})
        return None

    for number, script in enumerate((None, lambda request: Output(status="model_refused", reason=HOSTILE))):
        model = ScriptedModel(script or (lambda request: None), identity=f"tag:{HOSTILE} {number}")
        name = f"{HOSTILE.replace('/', '')} {number}"  # a folder
        run = api.rollout(folder / "data", model, out=folder / name)
        by = ScriptedJudge(says, name=HOSTILE)
        api.judge(run, by, by)
        paths.append(run.path)
    return compare_runs(paths, **FEW)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_in_a_browser(browser, mini, hostile, tmp_path, scheme, width):  # noqa: F811
    for found in (compare_runs(list(mini.values()), top=3, **FEW), hostile):
        file = found.write(tmp_path)[-1]
        requests, complaints = [], []
        with browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}) as context:
            page = context.new_page()
            page.on("request", lambda request, to=requests: to.append(request.url))
            page.on("console", lambda message, to=complaints: to.append(message.text))
            page.on("pageerror", lambda error, to=complaints: to.append(str(error)))
            page.goto(file.as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            assert page.evaluate("Promise.all([...document.images].map(i => i.decode()))") is not None
            assert page.evaluate("[...document.images].every(i => i.alt && i.getBoundingClientRect().width > 40)")
            points = page.locator(".chart path").count()
            assert points == len(found.content["per_dialogue"]) * (len(found.runs) - 1)
            assert page.locator(".chart path > title").count() == points
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", ground))) < 300) == (scheme == "dark")
            assert page.evaluate("document.title") != "taken"
            if found is hostile:
                assert page.get_by_text("<script>document.title", exact=False).count() > 20
        assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
        assert complaints == []


def test_hostile_text_stays_text(hostile, tmp_path):
    page = hostile.write(tmp_path)[-1].read_text()
    tags = Tags(page)
    assert "script" not in {tag for tag, _ in tags.seen}
    assert not [attributes for _, attributes in tags.seen if "onerror" in attributes]
    assert "{{7*7}}" in "".join(tags.text)
    assert "<script" not in (tmp_path / "comparison.md").read_text()
    policy = next(a["content"] for tag, a in tags.seen if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
