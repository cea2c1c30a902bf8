"""openai:<model>@<base url>: an OpenAI-compatible server, such as vLLM or a hosted API.

    OPENAI_API_KEY=… python examples/openai_model.py MODEL@http://localhost:8000/v1
    yanami eval --model openai:MODEL@http://localhost:8000/v1 --set draw=images --limit 8

Needs `pip install '.[judge]'`. The key is read from the environment and written nowhere.
"""

import sys

from yanami_metric import Selection
from yanami_metric.api import judge, rollout, score


def main(server):
    # draw: "images" asks the images API, "chat" takes images out of chat replies, "none" (the default) asks for none
    run = rollout("mini", f"openai:{server}", options={"draw": "images"}, selection=Selection(limit=4))
    for history, entry in score(judge(run))["histories"].items():
        print(history, {kind: dict(counts) for kind, counts in entry["statuses"].items()})


if __name__ == "__main__":
    main(*sys.argv[1:2])
