"""The report as files and in a browser: complete, self-contained, and unmoved by hostile text."""

import base64
import hashlib
import json
import random
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from tests.browsing import browser, looking, soon  # noqa: F401 - a fixture
from tests.support import ScriptedJudge, ScriptedModel, dialogue, reply
from yanami_dataset.errors import RunFolderError, SpecError
from yanami_dataset.images import encode_png, sha256
from yanami_dataset.schema import (
    DIMENSIONS,
    SCENARIOS,
    Check,
    Dialogue,
    ImageInfo,
    Message,
    Part,
    Question,
    Turn,
    validate,
)
from yanami_metric import tables
from yanami_metric.analysis.finding import Chart, Series
from yanami_metric.analysis.turns import by_turn
from yanami_metric.api import Run, judge, report, rollout, score
from yanami_metric.records import Output
from yanami_metric.report import sample, write
from yanami_metric.report_charts import svg
from yanami_metric.report_data import (
    ReportAnswer,
    ReportCall,
    ReportDialogue,
    ReportHistory,
    ReportImage,
    ReportItem,
    embedded,
)
from yanami_metric.score import ItemResult, summarise, tally
from yanami_metric.thumbnails import Pictures

TAKEN = "document.title='taken'"
HOSTILE = f'<script>{TAKEN}</script><img src=x onerror="{TAKEN}"> {{{{7*7}}}} \u202etxt'
MODES = ("gt", "self", "last", "none")
COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd")


def picture(seed, side=256):
    rng = random.Random(seed)
    image = Image.new("RGB", (side, side), "#f2efe6")
    draw = ImageDraw.Draw(image)
    for _ in range(rng.randint(2, 4)):
        x, y, r = rng.randint(40, 210), rng.randint(40, 210), rng.randint(22, 40)
        shape = rng.choice([draw.ellipse, draw.rectangle])
        shape([x - r, y - r, x + r, y + r], fill=rng.choice(COLOURS))
    return encode_png(image)


def make(id_, scenario, turns=3, text=None, capability="constraint_keeping"):
    images = [picture(f"{id_}-{n}") for n in range(turns + 1)]
    info = [ImageInfo("target" if n else "reference", max(0, n - 1), sha256(d), 256, 256) for n, d in enumerate(images)]
    messages = []
    for turn in range(turns):
        ask = (
            text
            or ["Keep the blue circle where it is.", "Move the red square to the top left.", "No, undo that."][turn % 3]
        )
        shown = (Part("image", index=0),) if turn == 0 else ()
        messages.append(Message("user", (Part("text", ask), *shown)))
        messages.append(Message("assistant", (Part("text", "Here it is."), Part("image", index=turn + 1))))
    checks = [
        Check(f"c{t}-{n}", t, 0, text or f"The {shape} is in the {cell} cell")
        for t in range(turns)
        for n, (shape, cell) in enumerate([("blue circle", "middle"), ("red square", "top left")])
    ]
    checks.append(Check("k0", turns - 1, 0, "The blue circle hasn't moved", "capability", "constraint_keeping"))
    questions = tuple(
        Question(name, name, turns - 1, text or f"Which object do I mean ({name})?", text or "the blue circle")
        for name in DIMENSIONS
    )
    return Dialogue(
        id_,
        scenario,
        tuple(messages),
        (Turn((capability,)),) * turns,
        tuple(images),
        tuple(info),
        questions,
        tuple(checks),
    )


def played(dialogue, mode, text=None):
    """One history of a dialogue: mostly fine, with one of every kind of failure somewhere."""
    rng = random.Random(f"{dialogue.id}-{mode}")
    images, items, calls = {}, {}, []
    for slot in dialogue.slots:
        lost = rng.random() < 0.1
        right = rng.random() < 0.6
        data = dialogue.images[slot.index] if right else picture(rng.random())
        images[slot.turn, 0] = ReportImage(None, "model_refused", text or "I can't draw that.") if lost else drawn(data)
        status = "model_refused" if lost else rng.choice(["scored"] * 12 + ["unparsed"])
        value = None if status == "unparsed" else 0 if lost else rng.choice([6, 8, 9, 10])
        items["quality", f"t{slot.turn}-s0"] = ReportItem(status, value, text or "Edges are a little soft.")
        for check in dialogue.checks_of(slot):
            status = "model_refused" if lost else rng.choice(["scored"] * 14 + ["transport_error"])
            value = None if status == "transport_error" else 0 if lost else int(right or rng.random() < 0.3)
            items["checks", check.id] = ReportItem(status, value, text or "Found at (0.21, 0.18).")
        asked = tuple(check.id for check in dialogue.checks_of(slot))
        calls.append(
            ReportCall("checks", text or "sees", slot.turn, 0, None, asked, (text or "Hm. " * 2000,), prompt=text)
        )
    answers = {}
    for question in dialogue.questions:
        right = rng.random() < 0.7
        answers[question.id] = ReportAnswer(text or ("The blue circle." if right else "The red square."))
        items["answer", question.id] = ReportItem("scored", int(right), text or "Compared with the reference.")
    return ReportHistory(images, answers, items, calls)


def drawn(data):
    return ReportImage(lambda: data)


def run(number=2, text=None, modes=MODES, mini=True, scenarios=SCENARIOS, **caps):
    """A run's scores and what its report shows."""
    shown = []
    for scenario in scenarios:
        for i in range(number):
            one = make(f"mini-{scenario}-{i:04}" if text is None else f"{scenario}{i}{text}", scenario, text=text)
            validate(one)
            shown.append(ReportDialogue(one, {mode: played(one, mode, text) for mode in modes}))
    entries = {
        mode: summarise(tallies(shown, mode), **{"can_answer": True, "can_draw": True, "resamples": 200} | caps)
        for mode in modes
    }
    scores = {
        "model": {"spec": text or "diffusers:black-forest-labs/FLUX.2-dev", "identity": "hub:4f2a91c7", "options": {}},
        "dataset": {"name": "mini", "revision": "a81c" * 16, "mini": mini, "scenarios": [], "limit": 8, "shard": None},
        "placement": "interleaved",
        "judge": {
            "images": {"name": "pixel", "fingerprint": {"name": "pixel", "version": 3}},
            "answers": {"name": "exact", "fingerprint": {"name": "exact", "version": 1}},
        },
        "facts": {"Seed": "0"},
        "histories": entries,
    }
    return json.loads(json.dumps(scores, allow_nan=False)), shown


def tallies(shown, mode):
    return [
        tally(
            one.dialogue, {key: ItemResult(item.status, item.value) for key, item in one.histories[mode].items.items()}
        )
        for one in shown
    ]


def written(folder, scores, shown, total=None, **more):
    """The page as a file, and as text."""
    file = folder / "report.html"
    write(file, scores, shown, shown=len(shown), total=len(shown) if total is None else total, **more)
    return file, file.read_text(encoding="utf-8")


def blocks(page):
    """The data of the dialogues in a page."""
    return [
        json.loads(text) for text in re.findall(r'<script type="application/json" id="y-d\d+">(.*?)</script>', page)
    ]


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.seen, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_needs_nothing_from_anywhere(tmp_path):
    scores, shown = run()
    _, page = written(tmp_path, scores, shown)
    tags = Tags(page).seen
    links = [value for _, attributes in tags for name, value in attributes.items() if name in ("src", "href", "srcset")]
    assert all(link.startswith("data:") for link in links)
    assert not {"iframe", "object", "embed", "base"} & {tag for tag, _ in tags}
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    for image in (image for block in blocks(page) for image in block["images"]):
        assert image["thumb"].startswith("data:image/webp;base64,")
        assert re.fullmatch(r"report-images/[0-9a-f]{64}\.png", image["file"])
        assert (tmp_path / image["file"]).is_file()


def test_its_policy_lets_its_own_script_run_and_nothing_else(tmp_path):
    scores, shown = run(1)
    for inline, images in ((False, "'self' file: data:"), (True, "data:")):
        _, page = written(tmp_path, scores, shown, inline=inline)
        policy = next(a["content"] for _, a in Tags(page).seen if a.get("http-equiv") == "Content-Security-Policy")
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert rules == {
            "default-src": "'none'", "script-src": f"'sha256-{digest}'", "style-src": "'unsafe-inline'",
            "img-src": images, "connect-src": "'none'", "base-uri": "'none'", "form-action": "'none'",
            "require-trusted-types-for": "'script'",
        }  # fmt: skip


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_whatever_is_embedded_comes_back_and_ends_no_script(value):
    text = embedded(value)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == value


def test_hostile_text_stays_text_everywhere(tmp_path):
    scores, shown = run(1, text=HOSTILE)
    scores["facts"] = {HOSTILE: HOSTILE}
    _, page = written(tmp_path, scores, shown, rubrics={"checks": HOSTILE})
    tags = Tags(page)
    assert len([tag for tag, a in tags.seen if tag == "script" and a.get("type") != "application/json"]) == 1
    assert not [attributes for _, attributes in tags.seen if "onerror" in attributes]
    assert "{{7*7}}" in "".join(tags.text)
    told = json.dumps(blocks(page))
    # user message, criterion, question, reference, answer, reasons, prompts and raw replies
    assert told.count("<script>document.title='taken'</script>") > 40


def test_the_mini_bench_is_never_taken_for_the_benchmark(tmp_path):
    scores, shown = run(1)
    assert "Not a YANAMI-Bench score" in written(tmp_path, scores, shown)[1]
    assert "not YANAMI-Bench scores" in tables.markdown(scores)
    assert "not YANAMI-Bench scores" in tables.comparison([("a", scores)])
    scores["dataset"]["mini"] = False
    assert "Not a YANAMI-Bench score" not in written(tmp_path, scores, shown)[1]
    assert "smoke" not in tables.markdown(scores)


def test_it_says_what_was_measured_and_with_what(tmp_path):
    scores, shown = run(1)
    for text in (written(tmp_path, scores, shown)[1], tables.markdown(scores)):
        for piece in ("FLUX.2-dev", "hub:4f2a91c7", "a81c" * 16, "interleaved", "limit 8", "pixel", "exact"):
            assert piece in text
        assert tables.digest({"version": 3, "name": "pixel"}) in text
        assert "inferred, not published" in text
        assert "0.4 DSU + 0.36 SC + 0.24 VQ" in text
    del scores["judge"]["images"]
    assert "Judge of images: not recorded" in tables.markdown(scores)


def test_the_summary_tells_intervals_coverage_bounds_and_what_refusals_cost(tmp_path):
    scores, shown = run(3)
    _, page = written(tmp_path, scores, shown, total=400)
    text = " ".join("".join(Tags(page).text).split())
    assert "12 of 400, taken evenly from the scenarios" in text
    for entry in scores["histories"].values():
        vr, apart = entry["vr"], entry["without_refusals"]
        assert vr["coverage"] < 1 and apart["n_refused"]
        for piece in (f"{vr['value']:.2f}", tables.spread(vr), "bounds " + "–".join(f"{b:.1f}" for b in vr["bounds"])):
            assert piece in text
        assert f"Without {apart['n_refused']} items the model refused" in text
        assert f"VR {apart['vr']['value']:.2f} ({tables.spread(apart['vr'])})" in text


def test_images_are_small_made_once_and_their_originals_lie_beside_the_page(tmp_path):
    one = make("d", "fusion", turns=1)
    noise = Image.frombytes("RGB", (1024, 512), random.Random(0).randbytes(1024 * 512 * 3))
    large = encode_png(noise)
    shown = ReportDialogue(one, {mode: ReportHistory({(0, 0): drawn(large)}) for mode in MODES})
    scores, _ = run(1)
    _, page = written(tmp_path, scores, [shown])
    [block] = blocks(page)
    assert len(block["images"]) == 3
    found = block["images"][block["turns"][0]["slots"][0]["outputs"][0]["image"]]
    assert (found["width"], found["height"]) == (1024, 512)
    assert (tmp_path / found["file"]).read_bytes() == large
    small = [Image.open(BytesIO(base64.b64decode(image["thumb"].partition(",")[2]))) for image in block["images"]]
    assert {image.size for image in small} == {(192, 192), (192, 96)}
    assert len(page) < 200_000 < len(large)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "report-images").iterdir()}
    assert len(before) == 3
    written(tmp_path, scores, [shown])
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "report-images").iterdir()}


def test_inline_holds_the_originals_and_writes_nothing_else(tmp_path):
    scores, shown = run(1, modes=("gt",))
    _, page = written(tmp_path, scores, shown[:1], inline=True)
    for image, data in zip(blocks(page)[0]["images"], shown[0].dialogue.images, strict=False):
        assert image["file"] == image["thumb"]
        assert base64.b64decode(image["file"].partition(",")[2]) in (data, *shown[0].dialogue.images)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def encoded(image, **how):
    buffer = BytesIO()
    image.save(buffer, **how)
    return buffer.getvalue()


def test_pictures_of_every_format_are_shown_as_one_sees_them(tmp_path):
    image = Image.new("RGB", (600, 300), "red")
    turned = Image.Exif()
    turned[274] = 6
    cases = {
        "png": (encoded(image, format="PNG"), "png", (600, 300)),
        "jpeg": (encoded(image, format="JPEG", exif=turned), "jpeg", (300, 600)),
        "cmyk": (encoded(image.convert("CMYK"), format="JPEG"), "jpeg", (600, 300)),
        "webp": (encoded(image, format="WEBP"), "webp", (600, 300)),
        "gif": (encoded(image, format="GIF"), "gif", (600, 300)),
        "bmp": (encoded(image, format="BMP"), "png", (600, 300)),
    }
    with Pictures(tmp_path, 6) as pictures:
        for name, (data, ending, size) in cases.items():
            found = pictures.of(name, lambda data=data: data).result()
            assert (found["width"], found["height"]) == size
            assert found["file"].endswith(f".{ending}")
            small = Image.open(BytesIO(base64.b64decode(found["thumb"].partition(",")[2]))).convert("RGB")
            assert (small.width > small.height) == (size[0] > size[1])
            red = small.getpixel((small.width // 2, small.height // 2))
            assert red[0] > 200 and max(red[1:]) < 60
        for data in (b"no image", b"<svg onload=1>", encoded(image, format="JPEG")[:-900]):
            assert set(pictures.of(repr(data), lambda data=data: data).result()) == {"why"}


def test_many_images_are_smaller_and_keep_within_the_budget(tmp_path):
    noise = Image.frombytes("RGB", (512, 512), random.Random(0).randbytes(512 * 512 * 3))
    data = encoded(noise, format="JPEG")
    sizes = {}
    for count in (1, 3000, 6000):
        with Pictures(tmp_path, count) as pictures:
            found = pictures.of("a", lambda: data, "x.jpg").result()
            assert found["file"] == "x.jpg"
            sizes[count] = len(found["thumb"])
            assert Image.open(BytesIO(base64.b64decode(found["thumb"].partition(",")[2]))).width <= pictures.side
    assert sizes[1] > sizes[3000] > sizes[6000]
    assert 3000 * sizes[3000] < 20_000_000


def test_a_broken_image_and_a_missing_verdict_are_said_to_be_so(tmp_path):
    one = make("d", "fusion", turns=1)
    scores, _ = run(1)
    shown = ReportDialogue(one, {"gt": ReportHistory({(0, 0): drawn(b"no image")}), "self": ReportHistory()})
    [block] = blocks(written(tmp_path, scores, [shown])[1])
    broken, missing = block["turns"][0]["slots"][0]["outputs"]
    assert "expected an image" in block["images"][broken["image"]]["why"]
    assert (missing["image"], missing["reason"]) == (None, "this run has no such output")
    assert missing["quality"] == {"tone": "open", "value": None, "status": "not_judged", "reason": ""}


def test_long_texts_are_cut_and_say_so(tmp_path):
    one = make("d", "fusion", turns=1)
    answers = {question.id: ReportAnswer("word " * 100_000) for question in one.questions}
    calls = [ReportCall("answer", "j", 0, None, one.questions[0].id, (), ("w" * 500_000,))]
    scores, _ = run(1)
    _, page = written(tmp_path, scores, [ReportDialogue(one, {"gt": ReportHistory(answers=answers, calls=calls)})])
    assert page.count("… (497,000 more characters)") == 5
    assert len(page) < 150_000


def test_halves_of_characters_stop_nothing(tmp_path):
    one = make("d", "fusion", turns=1)
    shown = ReportDialogue(one, {"gt": ReportHistory(answers={one.questions[0].id: ReportAnswer("a\ud800b")})})
    scores, _ = run(1)
    assert blocks(written(tmp_path, scores, [shown])[1])[0]["turns"][0]["questions"][0]["answers"][0]["text"] == "a?b"


def test_undefined_scores_are_dashes(tmp_path):
    scores, _ = run(1, can_answer=False)
    page, text = written(tmp_path, scores, [], total=4)[1], tables.markdown(scores)
    assert "None" not in "".join(Tags(page).text)
    assert "None" not in text
    assert "–" in page
    assert "overall is VR" in text
    empty = {"histories": {"gt": summarise([], can_answer=True, can_draw=True)}}
    assert "not recorded" in written(tmp_path, empty, [])[1]
    assert "| gt | – | – |" in tables.markdown(empty)


def test_a_report_that_fails_leaves_the_old_one_and_no_rest(tmp_path):
    scores, shown = run(1)
    file, page = written(tmp_path, scores, shown)

    def failing():
        yield shown[0]
        raise SpecError("no more")

    with pytest.raises(SpecError):
        write(file, scores, failing(), shown=4, total=4)
    assert file.read_text(encoding="utf-8") == page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report-images", "report.html"]


def test_charts_show_what_is_there_and_escape_the_rest():
    hostile = Series(HOSTILE, (1.0, 2.0, 3.0), (90.0, None, 50.0), (80.0, None, 45.0), (95.0, None, 60.0))
    lines = str(svg(Chart(HOSTILE, "lines", HOSTILE, "VR", (hostile,), (0, 100))))
    assert "<script" not in lines and "<img" not in lines and "NaN" not in lines and "None" not in lines
    assert lines.count('class="dot s0"') == 2 and lines.count("<polygon") == 1
    bars = str(svg(Chart("t", "bars", "", "VR", (Series("a", ("x", "y"), (1.0, -2.0)), Series("b", ("y",), (3.0,))))))
    assert bars.count('class="bar s') == 3 and bars.count("<pattern") == 2
    assert 'aria-label="t: a x 1.0, y -2.0; b y 3.0"' in bars
    assert svg(Chart("t", "lines", "", "", (Series("a", (1.0,), (None,)),))) == ""
    assert svg(Chart("t", "bars", "", "", ())) == ""
    assert 'd="M' in str(svg(Chart("t", "lines", "", "", (Series("a", (1.0,), (0.0,), (0.0,), (0.0,)),))))


# From a run folder


@pytest.fixture
def judged(tmp_path):
    """A run of four dialogues whose judge reads prompts and thinks aloud; one image is refused."""
    dialogues = [dialogue(f"d/{n} <b>", scenario) for n, scenario in enumerate(SCENARIOS)]

    def refuse(request):
        refused = request.expects == "images" and request.dialogue == "d/0 <b>" and request.turn == 3
        return Output(status="model_refused", reason="I won't") if refused else None

    made = rollout(dialogues, ScriptedModel(refuse), history="gt,self", out=tmp_path / "run")
    thinking = ScriptedJudge(lambda call: f"<think>{call.kind}!</think>{reply(call)}", reads_prompt=True)
    judge(made, thinking, thinking)
    score(made)
    return made


def test_a_run_is_reported_with_its_prompts_and_raw_replies(judged):
    file = report(judged)
    page = file.read_text(encoding="utf-8")
    assert (judged.path / "report.md").is_file()
    block = blocks(page)[0]
    kinds = {(call["history"], call["kind"]) for call in block["calls"]}
    assert kinds == {(history, kind) for history in ("gt", "self") for kind in ("answer", "checks", "quality")}
    for call in block["calls"]:
        assert block["texts"][call["raw"][0]].startswith(f"<think>{call['kind']}!</think>")
    checks = next(call for call in block["calls"] if call["kind"] == "checks")
    asked = block["texts"][checks["prompt"]]
    assert "It is a cat." in asked and "my cat" in asked and "[image]" in asked
    answer = next(call for call in block["calls"] if call["kind"] == "answer")
    assert "~~~\na cat\n~~~" in block["texts"][answer["prompt"]]
    rubrics = json.loads(re.search(r'id="y-page">(.*?)</script>', page)[1])["rubrics"]
    assert set(rubrics) == {"answer", "checks", "quality"} and all(len(text) > 200 for text in rubrics.values())


def test_images_of_a_run_are_linked_where_they_are(judged):
    page = report(judged).read_text(encoding="utf-8")
    files = {image["file"] for block in blocks(page) for image in block["images"]}
    assert {file.partition("/")[0] for file in files} == {"outputs", "report-images"}
    assert all((judged.path / unquote(file)).is_file() for file in files)


def test_a_record_that_names_a_file_elsewhere_is_not_followed(judged):
    (judged.path.parent / "secret.png").write_bytes(picture(1))
    records = judged.path / "outputs" / "gt" / "outputs.jsonl"
    records.write_text(re.sub(r'"file": "[^"]+"', '"file": "../secret.png"', records.read_text()))
    with pytest.raises(RunFolderError, match="outside the run folder"):
        report(Run(judged.path, judged.data))


def test_fewer_dialogues_and_inline_images_on_request(judged):
    page = report(judged, dialogues=2, inline=True).read_text(encoding="utf-8")
    assert len(blocks(page)) == 2
    assert not (judged.path / "report-images").exists()
    assert "2 of 4, taken evenly" in " ".join("".join(Tags(page).text).split())


def test_sample_is_even_and_bounded():
    scenarios = {f"{name}-{i:03}": name for name in SCENARIOS for i in range(100)}
    assert sample(scenarios, None) == list(scenarios)
    ids = sample(scenarios, 24)
    assert len(ids) == len(set(ids)) == 24
    assert {name: sum(id_.startswith(name) for id_ in ids) for name in SCENARIOS} == dict.fromkeys(SCENARIOS, 6)
    assert ids == sample(dict(reversed(scenarios.items())), 24)
    assert sample({"a": "fusion", "b": "editing"}, 10) == ["a", "b"]
    assert sample(scenarios, 0) == []
    with pytest.raises(SpecError, match="got -1"):
        sample(scenarios, -1)


def entry(scores, vr):
    """The scores with another VR, to see where they are put."""
    changed = json.loads(json.dumps(scores))
    for each in changed["histories"].values():
        each["vr"]["value"] = vr
    return changed


def test_models_are_compared_by_vr_and_never_by_overall():
    both, _ = run(2, modes=("gt", "self"))
    mute, _ = run(2, modes=("gt",), can_answer=False)
    mute["judge"]["images"] = {"name": "pixel", "fingerprint": {"version": 4}}
    rows = tables.table([("talks", entry(both, 40.0)), ("draws", entry(mute, 60.0)), ("broken", entry(mute, None))])
    assert [row[:2] for row in rows[1:]] == [["gt", "draws"], ["gt", "talks"], ["gt", "broken"], ["self", "talks"]]
    assert all(len(row) == len(rows[0]) for row in rows)
    text = tables.comparison([("talks", both), ("draws", mute)])
    assert re.search(r"Not measured alike: judge of images: pixel \([0-9a-f]{12}\) / pixel \(", text)
    assert "Not measured alike: overall: 0.4 DSU + 0.36 SC + 0.24 VQ / 0.6 SC + 0.4 VQ." in text
    assert "judge of answers" not in text
    assert "Not measured alike" not in tables.comparison([("talks", both), ("again", both)])


def test_observed_images_in_the_history_are_named():
    scores, _ = run(1)
    scores["histories"]["gt"]["observed_images_in_history"] = 5
    assert "gt: 5 of the earlier images are what some system once drew" in tables.markdown(scores)


def test_the_spread_between_generations_is_told():
    scores, _ = run(1)
    none = {"values": [None, None], "sd": None}
    two = {"count": 2, "overall": none, "vr": {"values": [1.0, 2.0], "sd": 0.5}, "dsu": none, "sc": none, "vq": none}
    scores["histories"]["gt"]["generations"] = two
    assert "gt: 2 generations of each item" in tables.markdown(scores)
    assert "between generations is: VR 0.50." in tables.markdown(scores)


def test_weights_of_ones_own_are_named():
    scores, _ = run(1)
    for each in scores["histories"].values():
        each["weights"]["dsu"] = 0.5
    assert "dsu 0.5, sc 0.6, vq 0.4" in tables.markdown(scores)
    assert "recovered" not in tables.markdown(scores)


def test_markdown_is_one_table_per_question_and_escapes():
    scores, _ = run(1, text="a|b\n# c <b> `d`")
    text = tables.markdown(scores)
    assert text.splitlines()[0] == r"# a\|b # c &lt;b> \`d\`"
    header = next(line for line in text.splitlines() if line.startswith("| History | Overall"))
    assert header == "| History | Overall | VR | DSU | SC | VQ | n | Coverage |"
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.replace("\\|", "").count("|") for line in block.splitlines()}) == 1


# In a browser


def opened(tmp_path, scores, shown, modes=MODES, **more):
    curve = by_turn({mode: tallies(shown, mode) for mode in modes}, resamples=50)
    return written(tmp_path, scores, shown, charts=curve.charts[:1], chart_notes=curve.notes, **more)[0]


def unfolded(page):
    """Everything that can be unfolded is; true when all images have loaded."""
    for _ in range(2):  # prompts are within the calls
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.wait_for_timeout(30)
    return page.evaluate("Promise.all([...document.images].filter(i => i.src).map(i => i.decode())).then(() => true)")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
def test_it_is_readable_light_dark_and_on_a_phone(browser, tmp_path, scheme, width):  # noqa: F811
    scores, shown = run(1)
    shown += run(1, text=HOSTILE)[1][:1]
    file = opened(tmp_path, scores, shown[:4])
    write(file, scores, shown, shown=5, total=400)
    with looking(browser, file, width=width, scheme=scheme) as looked:
        page = looked.page
        for _ in range(5):
            assert unfolded(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(
                "[...document.querySelectorAll('.turn img')].every(i => i.getBoundingClientRect().width > 60)"
            )
            page.keyboard.press("j")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) < 300) == (scheme == "dark")


def test_hostile_text_stays_text_in_the_browser(browser, tmp_path):  # noqa: F811
    scores, shown = run(1, text=HOSTILE)
    scores["facts"] = {HOSTILE: HOSTILE}
    with looking(browser, opened(tmp_path, scores, shown, rubrics={"checks": HOSTILE})) as looked:
        for _ in shown:
            assert unfolded(looked.page)
            assert soon(lambda: looked.page.locator("#y-browser").get_by_text("<script>document.title").count() > 40)
            looked.page.keyboard.press("j")
        assert looked.page.title() != "taken"
        assert looked.page.locator("script:not([type])").count() == 1
        assert looked.page.locator("img[src=x]").count() == 0


def ids(page):
    return page.locator("#y-list .id").all_inner_texts()


def test_filters_narrow_the_list(browser, tmp_path):  # noqa: F811
    scores, shown = run(3)
    extra = make("odd-one", "editing", capability="correction_updating")
    shown.append(ReportDialogue(extra, {"gt": ReportHistory()}))
    index = {one.dialogue.id: one for one in shown}
    with looking(browser, written(tmp_path, scores, shown)[0]) as looked:
        page = looked.page
        assert soon(lambda: ids(page) == list(index))
        assert soon(lambda: page.locator("#y-count").inner_text() == "13 of 13 dialogues")
        page.locator("#y-scenario").select_option("editing")
        assert soon(lambda: ids(page) == [id for id, one in index.items() if one.dialogue.scenario == "editing"])
        page.locator("#y-capability").select_option("correction_updating")
        assert soon(lambda: ids(page) == ["odd-one"])
        page.get_by_role("button", name="Clear").click()
        page.locator("#y-status").select_option("unparsed")
        wanted = [
            id for id, one in index.items()
            if any(item.status == "unparsed" for history in one.histories.values() for item in history.items.values())
        ]  # fmt: skip
        assert soon(lambda: ids(page) == wanted and 0 < len(wanted) < 13)
        page.get_by_role("button", name="Clear").click()
        page.locator("#y-search").fill("N-0002")
        assert soon(lambda: ids(page) == ["mini-fusion-0002"])
        page.get_by_role("button", name="Clear").click()
        page.locator("#y-score").select_option(label="SC, gt")
        page.locator("#y-high").fill("70")
        found = {}
        for one in tallies(shown[:-1], "gt"):
            found[one.dialogue] = 100 * one.checks.share
        assert soon(lambda: ids(page) == [id for id, sc in found.items() if sc <= 70] and 0 < len(ids(page)) < 12)
        page.locator("#y-low").fill("101")
        assert soon(lambda: page.locator("#y-count").inner_text() == "0 of 13 dialogues")
        assert soon(lambda: page.locator("#y-next").is_disabled())


def test_steps_by_keys_buttons_and_links(browser, tmp_path):  # noqa: F811
    scores, shown = run(2)
    last = shown[-1].dialogue.id
    file, _ = written(tmp_path, scores, shown)
    with looking(browser, file, f"#{last}") as looked:
        page = looked.page
        title = page.locator("#y-title")
        assert soon(lambda: title.inner_text() == last)
        assert soon(lambda: page.locator("#y-list a[aria-current]").count() == 1)
        assert soon(lambda: page.locator("#y-place").inner_text() == "8 of 8")
        page.keyboard.press("k")
        assert soon(lambda: title.inner_text() == shown[-2].dialogue.id)
        assert soon(lambda: page.evaluate("document.activeElement.id") == "y-title")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("j")
        assert soon(lambda: page.evaluate("decodeURIComponent(location.hash)") == f"#{last}")
        page.keyboard.press("n")
        page.keyboard.press("n")
        assert soon(lambda: page.evaluate("document.activeElement.getAttribute('aria-label')") == "turn 2")
        page.keyboard.press("p")
        assert soon(lambda: page.evaluate("document.activeElement.getAttribute('aria-label')") == "turn 1")
        page.go_back()
        assert soon(lambda: title.inner_text() == shown[-2].dialogue.id)
        page.get_by_role("button", name="Previous dialogue").click()
        assert soon(lambda: title.inner_text() == shown[-3].dialogue.id)
        page.keyboard.press("/")
        page.keyboard.type("fusion-0001?j")  # keys are letters while one types
        page.locator("#y-search").fill("fusion-0001")
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        assert soon(lambda: title.inner_text() == "mini-fusion-0001")
        page.keyboard.press("?")
        assert soon(lambda: page.locator("#y-help").is_visible())
        page.keyboard.press("Escape")
        assert soon(lambda: not page.locator("#y-help").is_visible())
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        page.keyboard.press("Tab")
        assert outline and page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_an_image_opens_in_full_and_only_then_is_read(browser, tmp_path):  # noqa: F811
    scores, shown = run(1)
    file, _ = written(tmp_path, scores, shown)
    with looking(browser, file) as looked:
        page = looked.page
        assert [url for url in looked.requests if not url.startswith("data:")] == [file.as_uri()]
        page.get_by_role("button", name="target of turn 3", exact=True).click()
        page.wait_for_function("document.getElementById('y-image').naturalWidth === 256")
        assert page.locator("#y-caption").inner_text() == "target of turn 3, 256 × 256 pixels"
        assert page.locator("#y-image").get_attribute("alt") == "target of turn 3"
        page.keyboard.press("Escape")
        assert not page.locator("#y-large").is_visible()
        beside = [url for url in looked.requests if "report-images" in url]
        assert len(beside) == 1
        for path in (tmp_path / "report-images").iterdir():
            path.unlink()
        page.locator("button.zoom").first.click()
        page.get_by_text("The original isn't beside this page").wait_for()
        looked.complaints.clear()  # the browser names the file that isn't there


def test_all_images_say_what_they_show(browser, tmp_path):  # noqa: F811
    scores, shown = run(1)
    with looking(browser, written(tmp_path, scores, shown)[0]) as looked:
        texts = looked.page.evaluate("[...document.querySelectorAll('.dialogue img')].map(i => i.alt)")
        assert len(texts) > 6
        wanted = r"(target of turn \d|reference image in .* turn \d|output of \w+, turn \d, quality (\d+\.\d|unparsed))"
        assert all(re.fullmatch(wanted, text) for text in texts)
        assert looked.page.locator(".dialogue button:not(:has(img))").count() == 0


def test_raw_replies_and_prompts_on_demand(browser, judged):  # noqa: F811
    with looking(browser, report(judged)) as looked:
        page = looked.page
        assert soon(lambda: page.locator("#y-title").inner_text() == "d/0 <b>")
        assert page.locator(".call").count() == 0
        calls = page.locator("details.calls", has_text="Prompts and raw replies")
        calls.first.locator("summary").first.click()
        assert soon(lambda: page.get_by_text("<think>", exact=False).first.is_visible())
        call = page.locator(".call").first
        call.locator("summary").click()
        assert soon(lambda: call.locator("pre").count() == 3)
        assert soon(lambda: page.get_by_text("I won't").first.is_visible())


def test_a_judge_without_prompts_is_said_to_have_none_and_long_replies_are_cut(browser, tmp_path):  # noqa: F811
    scores, shown = run(1)
    with looking(browser, written(tmp_path, scores, shown)[0]) as looked:
        assert unfolded(looked.page)
        assert soon(lambda: looked.page.get_by_text("No prompt: the judge reads none").count() == 12)
        assert soon(lambda: looked.page.get_by_text("… (5,000 more characters)").count() == 12)


def test_without_scripts_the_scores_stand_and_the_rest_is_explained(browser, tmp_path):  # noqa: F811
    scores, shown = run(2)
    with looking(browser, opened(tmp_path, scores, shown), scripts=False) as looked:
        page = looked.page
        told = page.locator("noscript p")  # texts within noscript are invisible to get_by_text
        assert told.is_visible() and "The browser of dialogues needs scripts" in told.inner_text()
        assert page.get_by_text(f"{scores['histories']['gt']['overall']['value']:.2f}").first.is_visible()
        assert page.locator("figure.chart svg[role=img]").count() == 3
        assert not page.locator("#y-browser").is_visible()
    with looking(browser, tmp_path / "report.html") as looked:
        assert looked.page.locator("noscript p").count() == 0


def odd(**changes):
    """A dialogue that lacks something, and every item of it in one state."""
    one = dialogue("odd", **{key: value for key, value in changes.items() if key in ("draws", "targets")})
    if changes.get("status"):
        items = {("checks", check.id): ReportItem(changes["status"], None, "") for check in one.checks}
        items |= {("answer", question.id): ReportItem(changes["status"], None, "") for question in one.questions}
        return ReportDialogue(one, {"gt": ReportHistory(items=items)})
    return ReportDialogue(one, {"gt": ReportHistory()})


@pytest.mark.parametrize(
    ("name", "caps"),
    [
        ({"draws": 0}, {}),
        ({"targets": False}, {}),
        ({"status": "model_refused"}, {}),
        ({"status": "transport_error"}, {}),
        ({"status": "not_judgeable"}, {"can_draw": False}),
        ({"status": "generation_error"}, {"can_answer": False}),
    ],
)
def test_odd_runs_show_nothing_that_is_no_value(browser, tmp_path, name, caps):  # noqa: F811
    shown = [odd(**name)]
    scores, _ = run(1)
    entry = summarise(tallies(shown, "gt"), **{"can_answer": True, "can_draw": True} | caps)
    scores["histories"] = {"gt": json.loads(json.dumps(entry))}
    with looking(browser, opened(tmp_path, scores, shown, ("gt",))) as looked:
        assert unfolded(looked.page)
        text = looked.page.inner_text("body")
        assert not re.search(r"\b(NaN|None|undefined|null|Infinity)\b", text)
        assert looked.page.locator("#y-title").inner_text() == "odd"
        assert "–" in text
        tags = looked.page.evaluate(
            "[...document.querySelectorAll('[title], [alt], [aria-label]')].map(e => e.outerHTML)"
        )
        assert not re.search(r'"[^"]*\b(NaN|None|undefined|null)\b[^"]*"', "".join(tags))


def test_missing_scenarios_are_left_out(browser, tmp_path):  # noqa: F811
    scores, shown = run(1, scenarios=("editing", "fusion"), modes=("gt",))
    with looking(browser, opened(tmp_path, scores, shown, ("gt",))) as looked:
        assert looked.page.locator(".matrix .group").all_inner_texts() == ["fusion", "editing"]
        assert looked.page.locator("#y-scenario option").all_inner_texts() == ["any", "fusion", "editing"]
        assert not re.search("modeling|reasoning", looked.page.locator("#y-filters").inner_text())


def test_a_report_without_dialogues_says_so(browser, tmp_path):  # noqa: F811
    scores, _ = run(1)
    with looking(browser, written(tmp_path, scores, [], total=4)[0]) as looked:
        assert looked.page.get_by_text("No dialogue is shown in this report.").is_visible()


def test_a_list_of_thousands_stays_quick(browser, tmp_path):  # noqa: F811
    one = dialogue("d")
    shown = [ReportDialogue(replace(one, id=f"d{n:04}"), {"gt": ReportHistory()}) for n in range(4000)]
    scores, _ = run(1, modes=("gt",))
    with looking(browser, written(tmp_path, scores, shown)[0]) as looked:
        page = looked.page
        assert page.locator("#y-list li").count() == 200
        page.get_by_role("button", name="Show more").click()
        assert page.locator("#y-list li").count() == 400
        spent = page.evaluate("""() => {
            const search = document.getElementById("y-search"), start = performance.now();
            for (const text of ["d", "d3", "d39", ""]) {
                search.value = text;
                search.dispatchEvent(new Event("input"));
            }
            return performance.now() - start;
        }""")
        assert spent < 1000
        page.evaluate("location.hash = 'd3999'")
        page.locator("#y-title", has_text="d3999").wait_for()
