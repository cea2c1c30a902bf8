"""replay:<folder>: outputs that exist already, listed in a manifest, judged as if they were made now.

    python examples/replay_outputs.py

Here they are the first image of each dialogue, again and again, and one answer to everything.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from yanami_metric import open_data
from yanami_metric.api import judge, rollout, score
from yanami_metric.mini import mini_folder


def write_outputs(dialogues, folder):
    """Any files, one line of manifest.jsonl for each turn that draws and each question."""
    lines = []
    for dialogue in dialogues:
        (folder / f"{dialogue.id}.png").write_bytes(dialogue.images[0])
        for turn in dialogue.generation_turns:
            images = [f"{dialogue.id}.png"] * len(dialogue.slots_of(turn))
            lines.append({"dialogue": dialogue.id, "turn": turn, "images": images})
        for question in dialogue.questions:
            lines.append({"dialogue": dialogue.id, "question": question.id, "text": "red circle"})
    (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def main():
    dialogues = open_data(mini_folder(dialogues=8))
    with TemporaryDirectory() as folder:
        write_outputs(dialogues, Path(folder))
        run = rollout(dialogues, f"replay:{folder}")
    scores = score(judge(run))["histories"]["gt"]
    print("gt", {name: round(scores[name]["value"], 1) for name in ("overall", "dsu", "sc", "vq")})


if __name__ == "__main__":
    main()
