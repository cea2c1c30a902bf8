"""transformers:<id or folder>: answers from any image-text-to-text model, images from Janus and Emu3.

    python examples/transformers_model.py FOLDER_OR_ID
    yanami eval --model transformers:FOLDER_OR_ID --set max_new_tokens=64 --set load.dtype=bfloat16 --limit 8

Needs `pip install '.[models]'`. The mini bench is a smoke test: its numbers are no YANAMI-Bench scores.
"""

import sys

from yanami_metric import Selection
from yanami_metric.api import judge, rollout, score


def main(source):
    options = {"max_new_tokens": 16}
    run = rollout("mini", f"transformers:{source}", options=options, selection=Selection(limit=4))
    for history, entry in score(judge(run))["histories"].items():
        print(history, "answers:", entry["statuses"]["answer"], "DSU:", entry["dsu"]["value"])


if __name__ == "__main__":
    main(*sys.argv[1:2])
