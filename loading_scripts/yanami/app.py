"""The page of the metric on the Hub: a zipped run folder goes in, its scores come out.

Nothing that is uploaded is shown as markup, and the page fetches nothing from elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported

import gradio as gr

from yanami_dataset.errors import YanamiError
from yanami_dataset.schema import SCENARIOS
from yanami_metric.score import SC_MEANS, ScMean
from yanami_metric.tables import (
    DIMENSION_TITLES,
    HEADLINES,
    SMOKE,
    TITLES,
    facts,
    histories,
    is_mini,
    model_name,
    notes,
    number,
    percent,
    spread,
)
from yanami_metric.uploads import rescored

MOST_UPLOADED = 500 << 20  # bytes of a zip; without images a run is far smaller
ABOUT = """# YANAMI

**DSU**, dialogue-state understanding: the share of questions about a dialogue that are answered correctly. \
**SC**, specification compliance: the share of atomic checks that the drawn images pass.
**VQ**, visual quality: how good they look, 0 to 10, times 10. **VR**, visual realization: 0.6 SC + 0.4 VQ."""
ASKED = """Upload a run folder as a zip. Images aren't needed: \
`cd RUN_FOLDER && zip -r ../run.zip . -i '*.json' '*.jsonl'`. \
Runs on the mini bench are scored anew from their verdicts; of all others the scores in the folder are shown. \
Uploads are deleted after an hour."""
HEADLINE_COLUMNS = ["History", *TITLES.values(), "n", "Coverage"]
SCENARIO_COLUMNS = ["History", "Scenario", "Dialogues", *TITLES.values(), *DIMENSION_TITLES.values(), "Coverage"]
DIMENSIONS = ", ".join(f"{short} {name.replace('_', ' ')}" for name, short in DIMENSION_TITLES.items())
FACT_COLUMNS = ["What", "Value"]


def headlines(scores: Mapping[str, Any]) -> list[list[str]]:
    """A row for each history: the scores over all scenarios with their intervals, and how much of it was scored."""
    rows = []
    for history, entry in histories(scores).items():
        widest = _widest(entry)
        values = [_with_spread(entry[name]) for name in HEADLINES]
        rows.append([history, *values, str(widest["n"]), percent(widest["coverage"])])
    return rows


def scenarios(scores: Mapping[str, Any]) -> list[list[str]]:
    """A row for each scenario of each history, with the four dimensions of DSU."""
    rows = []
    for history, entry in histories(scores).items():
        for scenario in (name for name in SCENARIOS if name in entry["scenarios"]):
            part = entry["scenarios"][scenario]
            found = [part[name] for name in HEADLINES] + [part["dimensions"][name] for name in DIMENSION_TITLES]
            values = [number(estimate["value"]) for estimate in found]
            rows.append([history, scenario, str(part["dialogues"]), *values, percent(_widest(part)["coverage"])])
    return rows


def _widest(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return max((entry[name] for name in HEADLINES), key=lambda estimate: estimate["n"])


def _with_spread(estimate: Mapping[str, Any]) -> str:
    ends = spread(estimate)
    return number(estimate["value"]) + (f" ({ends})" if ends else "")


def visible(text: str) -> str:
    """Text of others as it can be shown: on one line, without characters that hide or turn what stands beside them."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in " ".join(text.split()))


def score(path: str | None, sc_mean: ScMean, judge: str | None) -> list[Any]:
    """What the page shows for an upload: the values of its outputs, in their order."""
    if not path:
        return _failed("Choose a zip of a run folder first.")
    try:
        scores = rescored(path, sc_mean=sc_mean, judge=(judge or "").strip() or None)
    except YanamiError as error:
        return _failed(visible(str(error)))
    told = [visible(line) for line in notes(scores)]
    return [
        gr.Textbox(visible=False),
        gr.Column(visible=True),
        gr.Textbox(SMOKE, visible=is_mini(scores)),
        gr.Textbox(visible(model_name(scores))),
        gr.Textbox(visible(scores["facts"]["Scores"])),
        headlines(scores),
        scenarios(scores),
        gr.Textbox("\n".join(told)),
        [[visible(label), visible(text)] for label, text in facts(scores)],
    ]


def _failed(why: str) -> list[Any]:
    return [gr.Textbox(why, visible=True), gr.Column(visible=False), *[gr.skip()] * 7]


def build() -> gr.Blocks:
    """The page."""
    with gr.Blocks(title="YANAMI", analytics_enabled=False, delete_cache=(600, 3600)) as page:
        gr.Markdown(ABOUT)
        gr.Markdown(ASKED)
        upload = gr.File(label="Run folder (.zip)", file_types=[".zip"], height=140)
        with gr.Accordion("Settings", open=False), gr.Row():
            sc_mean = gr.Dropdown(list(SC_MEANS), value=SC_MEANS[0], label="SC is averaged over")
            judge = gr.Textbox(label="Judge of images", placeholder="the first that was asked", max_lines=1)
        button = gr.Button("Score", variant="primary")
        failed = gr.Textbox(label="This can't be scored", visible=False, lines=2, elem_id="failed")
        with gr.Column(visible=False) as found:
            smoke = gr.Textbox(label="Mini bench", visible=False, elem_id="smoke")
            with gr.Row():
                model = gr.Textbox(label="Model", elem_id="model")
                origin = gr.Textbox(label="Scores", elem_id="origin")
            whole = _table(HEADLINE_COLUMNS, "Scores, with 95 % intervals", "whole")
            parts = _table(SCENARIO_COLUMNS, f"By scenario ({DIMENSIONS}: the dimensions of DSU)", "parts")
            told = gr.Textbox(label="Notes", lines=3, max_lines=30, elem_id="notes")
            with gr.Accordion("What was measured, and with what", open=False):
                measured = _table(FACT_COLUMNS, "", "facts", wrap=True, column_widths=["30%", "70%"])
        outputs = [failed, found, smoke, model, origin, whole, parts, told, measured]
        button.click(score, [upload, sc_mean, judge], outputs, api_name="score", concurrency_limit=1)
    return page


def _table(columns: list[str], label: str, name: str, **how: Any) -> gr.Dataframe:
    """A table of plain text that can't be edited."""
    return gr.Dataframe(
        headers=columns,
        datatype="str",
        type="array",
        label=label,
        show_label=bool(label),
        interactive=False,
        max_height=2000,  # all of it: the page scrolls, not the table
        elem_id=name,
        **how,
    )


def theme() -> gr.themes.Base:
    """A theme whose fonts are the system's."""
    return gr.themes.Default(
        primary_hue="blue",
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
    )


if __name__ == "__main__":
    # GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where, by default on this machine only
    build().launch(theme=theme(), ssr_mode=False, max_file_size=MOST_UPLOADED, footer_links=[])
