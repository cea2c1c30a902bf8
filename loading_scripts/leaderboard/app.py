"""The page of the leaderboard on the Hub: a table for each formula of overall, all by the same judge.

YANAMI_LEADERBOARD_REPO, or else bench.txt beside this file, names the Hub data set with the submissions,
YANAMI_LEADERBOARD_RUNS folders of runs on this machine. What submissions say is shown as text, never as markup, and the
page fetches nothing from elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported

import gradio as gr

from yanami_dataset.errors import YanamiError
from yanami_metric.leaderboard import Board, Group, board

ABOUT = """# YANAMI leaderboard

Scores are points from 0 to 100, higher is better. Overall is another score for models that answer in text than for \
those that don't, so they are in tables of their own; and only what the same judge said is in one table."""


def published() -> str | None:
    """The bench that `yanami publish space` wrote beside this file, if it did."""
    noted = Path(__file__).with_name("bench.txt")
    return noted.read_text(encoding="utf-8").strip() if noted.is_file() else None


def gathered(judge: str | None) -> Board:
    """The board as it is now, by one judge; None: whichever comes first."""
    runs = os.environ.get("YANAMI_LEADERBOARD_RUNS", "").split(os.pathsep)
    repo = os.environ.get("YANAMI_LEADERBOARD_REPO") or published()
    return board(repo=repo, local=tuple(Path(run) for run in runs if run), judge=judge)


def visible(text: str) -> str:
    """Text of others as it can be shown: on one line, without characters that hide or turn what stands beside them."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in " ".join(text.split()))


def look(judge: str | None) -> tuple[Any, Board | None, Any]:
    """What the page shows: the choice of judges, the board, and what is to be said about it or went wrong."""
    try:
        found = gathered(judge)
    except YanamiError as error:
        return gr.skip(), None, gr.Textbox(visible(str(error)), label="There is no board to show", visible=True)
    told = "\n".join(map(visible, found.notes))
    judges = gr.Dropdown(list(found.judges), value=found.judge or None, visible=bool(found.judges))
    return judges, found, gr.Textbox(told, label="Notes", visible=bool(told))


def build() -> gr.Blocks:
    """The page."""
    with gr.Blocks(title="YANAMI leaderboard", analytics_enabled=False) as page:
        gr.Markdown(ABOUT)
        with gr.Row(equal_height=False):
            judge = gr.Dropdown([], label="Judge, by its fingerprint", visible=False, scale=4, elem_id="judge")
            refresh = gr.Button("Refresh", scale=1, min_width=120)
        found = gr.State()

        @gr.render(inputs=found)
        def tables(shown: Board | None) -> None:
            for number, group in enumerate(shown.groups if shown else ()):
                _table(group, number)

        told = gr.Textbox(label="Notes", visible=False, lines=2, max_lines=30, elem_id="notes")
        outputs = [judge, found, told]
        page.load(look, judge, outputs, api_visibility="private")
        judge.input(look, judge, outputs, api_visibility="private")
        refresh.click(look, judge, outputs, api_visibility="private")
    return page


def _table(group: Group, number: int) -> None:
    """A group as a table of plain text that can't be edited."""
    gr.Dataframe(
        [[visible(cell) for cell in row] for row in group.rows],
        headers=[visible(name) for name in group.header],
        label=visible(group.title),
        datatype="str",
        type="array",
        interactive=False,
        max_height=2000,  # all of it: the page scrolls, not the table
        elem_id=f"group-{number}",
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
    build().launch(theme=theme(), ssr_mode=False, footer_links=[])
