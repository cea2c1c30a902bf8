"""The report as files and in a browser: complete, self-contained, and unmoved by hostile text."""

import base64
import json
import os
import random
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from yanami_dataset.errors import SpecError
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
from yanami_metric.report import (
    SHOWN,
    ReportAnswer,
    ReportDialogue,
    ReportHistory,
    ReportImage,
    ReportItem,
    html,
    sample,
)
from yanami_metric.score import ItemResult, summarise, tally

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


def make(id_, scenario, turns=3, text=None):
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
        id_, scenario, tuple(messages), (Turn(),) * turns, tuple(images), tuple(info), questions, tuple(checks)
    )


def played(dialogue, mode, text=None):
    """One history of a dialogue: mostly fine, with one of every kind of failure somewhere."""
    rng = random.Random(f"{dialogue.id}-{mode}")
    images, items = {}, {}
    for slot in dialogue.slots:
        lost = rng.random() < 0.1
        right = rng.random() < 0.6
        data = dialogue.images[slot.index] if right else picture(rng.random())
        images[slot.turn, 0] = (
            ReportImage(None, "model_refused", text or "I can't draw that.") if lost else ReportImage(data)
        )
        status = "model_refused" if lost else rng.choice(["scored"] * 12 + ["unparsed"])
        value = None if status == "unparsed" else 0 if lost else rng.choice([6, 8, 9, 10])
        items["quality", f"t{slot.turn}-s0"] = ReportItem(status, value, text or "Edges are a little soft.")
        for check in dialogue.checks_of(slot):
            status = "model_refused" if lost else rng.choice(["scored"] * 14 + ["transport_error"])
            value = None if status == "transport_error" else 0 if lost else int(right or rng.random() < 0.3)
            items["checks", check.id] = ReportItem(status, value, text or "Found at (0.21, 0.18).")
    answers = {}
    for question in dialogue.questions:
        right = rng.random() < 0.7
        answers[question.id] = ReportAnswer(text or ("The blue circle." if right else "The red square."))
        items["answer", question.id] = ReportItem("scored", int(right), text or "Compared with the reference.")
    return ReportHistory(images, answers, items)


def run(number=2, text=None, modes=MODES, mini=True, **caps):
    """A run's scores and what its report shows."""
    shown = []
    for scenario in SCENARIOS:
        for i in range(number):
            dialogue = make(f"mini-{scenario}-{i:04}" if text is None else f"{scenario}{i}{text}", scenario, text=text)
            validate(dialogue)
            shown.append(ReportDialogue(dialogue, {mode: played(dialogue, mode, text) for mode in modes}))
    entries = {
        mode: summarise(
            [
                tally(
                    one.dialogue,
                    {key: ItemResult(item.status, item.value) for key, item in one.histories[mode].items.items()},
                )
                for one in shown
            ],
            **{"can_answer": True, "can_draw": True, "resamples": 200} | caps,
        )
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


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.seen, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_needs_nothing_from_anywhere():
    scores, shown = run()
    tags = Tags(html(scores, shown, total=8)).seen
    links = [value for _, attributes in tags for name, value in attributes.items() if name in ("src", "href", "srcset")]
    assert len(links) > 50
    assert all(link.startswith("data:") for link in links)
    assert not {"script", "iframe", "object", "form"} & {tag for tag, _ in tags}
    policy = next(a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.replace("style-src 'unsafe-inline'", "")


def test_hostile_text_stays_text_everywhere():
    scores, shown = run(1, text=HOSTILE)
    scores["facts"] = {HOSTILE: HOSTILE}
    page = html(scores, shown, total=4)
    tags = Tags(page)
    assert "script" not in {tag for tag, _ in tags.seen}
    assert not [attributes for _, attributes in tags.seen if "onerror" in attributes]
    shown_text = "".join(tags.text)
    # user message, criterion, question, reference, answer, reasons, id, model and facts
    assert shown_text.count("<script>document.title='taken'</script>") > 40
    assert "{{7*7}}" in shown_text


def test_the_mini_bench_is_never_taken_for_the_benchmark():
    scores, shown = run(1)
    assert "Not a YANAMI-Bench score" in html(scores, shown, total=4)
    assert "not YANAMI-Bench scores" in tables.markdown(scores)
    assert "not YANAMI-Bench scores" in tables.comparison([("a", scores)])
    scores["dataset"]["mini"] = False
    assert "Not a YANAMI-Bench score" not in html(scores, shown, total=4)
    assert "smoke" not in tables.markdown(scores)


def test_it_says_what_was_measured_and_with_what():
    scores, shown = run(1)
    for text in (html(scores, shown, total=4), tables.markdown(scores)):
        for piece in ("FLUX.2-dev", "hub:4f2a91c7", "a81c" * 16, "interleaved", "limit 8", "pixel", "exact"):
            assert piece in text
        assert tables.digest({"version": 3, "name": "pixel"}) in text
        assert "inferred, not published" in text
        assert "0.4 DSU + 0.36 SC + 0.24 VQ" in text
    del scores["judge"]["images"]
    assert "Judge of images: not recorded" in tables.markdown(scores)


def test_it_shows_verdicts_reasons_and_failures():
    scores, shown = run(2)
    text = " ".join("".join(Tags(html(scores, shown, total=400)).text).split())
    assert "Showing 8 of 400, taken evenly from the scenarios" in text
    for piece in ("Found at (0.21, 0.18).", "I can't draw that.", "transport error", "model refused", "not in SC"):
        assert piece in text
    assert "Without" in text
    assert f"{scores['histories']['gt']['overall']['value']:.2f}" in text


def test_images_are_small_and_made_once():
    dialogue = make("d", "fusion", turns=1)
    noise = Image.frombytes("RGB", (1024, 512), random.Random(0).randbytes(1024 * 512 * 3))
    large = encode_png(noise)
    one = ReportDialogue(dialogue, {mode: ReportHistory({(0, 0): ReportImage(large)}) for mode in MODES})
    scores, _ = run(1)
    page = html(scores, [one], total=1)
    uris = re.findall(r"data:image/webp;base64,([^\"]+)", page)
    assert len(uris) == 6
    assert len(set(uris)) == 3
    assert len(page) < 200_000 < len(large)
    sizes = {Image.open(BytesIO(base64.b64decode(uri))).size for uri in uris}
    assert sizes == {(192, 192), (192, 96)}
    assert "1024 × 512 pixels" in page


def test_a_broken_image_and_a_missing_verdict_are_said_to_be_so():
    dialogue = make("d", "fusion", turns=1)
    scores, _ = run(1)
    one = ReportDialogue(dialogue, {"gt": ReportHistory({(0, 0): ReportImage(b"no image")}), "self": ReportHistory()})
    text = "".join(Tags(html(scores, [one], total=1)).text)
    assert "can't be shown" in text
    assert "this run has no such output" in text
    assert "not judged" in text


def test_long_texts_are_cut_and_say_so():
    dialogue = make("d", "fusion", turns=1)
    answers = {question.id: ReportAnswer("word " * 100_000) for question in dialogue.questions}
    scores, _ = run(1)
    page = html(scores, [ReportDialogue(dialogue, {"gt": ReportHistory(answers=answers)})], total=1)
    assert "… (497,000 more characters)" in page
    assert len(page) < 100_000


def test_undefined_scores_are_dashes():
    scores, _ = run(1, can_answer=False)
    page, text = html(scores, [], total=4), tables.markdown(scores)
    assert "None" not in page
    assert "None" not in text
    assert "–" in page
    assert "overall is VR" in text
    empty = {"histories": {"gt": summarise([], can_answer=True, can_draw=True)}}
    assert "not recorded" in html(empty, [], total=0)
    assert "| gt | – | – |" in tables.markdown(empty)


def test_sample_is_even_and_bounded():
    scenarios = {f"{name}-{i:03}": name for name in SCENARIOS for i in range(100)}
    ids = sample(scenarios)
    assert len(ids) == len(set(ids)) == SHOWN
    assert {name: sum(id_.startswith(name) for id_ in ids) for name in SCENARIOS} == dict.fromkeys(SCENARIOS, 6)
    assert ids == sample(dict(reversed(scenarios.items())))
    assert sample({"a": "fusion", "b": "editing"}, 10) == ["a", "b"]
    assert sample(scenarios, 0) == []
    with pytest.raises(SpecError, match="got -1"):
        sample(scenarios, -1)


def test_the_page_stays_small_at_any_size():
    scores, shown = run(6)
    assert len(html(scores, shown, total=4000)) < 2_500_000


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


@pytest.fixture(scope="module")
def browser():
    chromium = Path("/usr/bin/chromium")
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        missing("playwright isn't installed")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(
                executable_path=str(chromium) if chromium.exists() else None,
                args=[*arguments, "--disable-sync", "--no-first-run"],
            )
        except Error as error:
            missing(f"no Chromium: {error}")
        yield opened
        opened.close()


def missing(why):
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_in_a_browser(browser, tmp_path, scheme, width):
    scores, shown = run(1)
    hostile = run(1, text=HOSTILE)[1][:1]
    file = tmp_path / "report.html"
    file.write_text(html(scores, shown + hostile, total=400), encoding="utf-8")
    requests, complaints = [], []
    with browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}) as context:
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(file.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        images = page.evaluate("Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))")
        assert min(images) == 192
        assert len(images) > 60
        assert page.evaluate("[...document.images].every(i => i.getBoundingClientRect().width > 60)")
        assert "taken" not in page.title()
        assert page.get_by_text("<script>document.title", exact=False).count() > 10
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) < 300) == (scheme == "dark")
        assert page.screenshot(path=tmp_path / "report.png")
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    assert complaints == []
