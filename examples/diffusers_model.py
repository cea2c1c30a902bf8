"""diffusers:<id or folder>: a pipeline on disk or from the Hub, or a pipeline object that is there already.

    python examples/diffusers_model.py FOLDER_OR_ID ['{"num_inference_steps": 28}']
    yanami eval --model diffusers:FOLDER_OR_ID --set num_inference_steps=28 --set load.dtype=bfloat16 --history gt,self

Needs `pip install '.[models]'`. The mini bench is a smoke test: its numbers are no YANAMI-Bench scores.
"""

import json
import sys

from diffusers import DiffusionPipeline

from yanami_metric import Selection
from yanami_metric.api import judge, rollout, score


def main(source, options='{"num_inference_steps": 2}'):
    # by its spec: loaded when it is first asked, known by its weights
    run = rollout("mini", f"diffusers:{source}", options=json.loads(options), selection=Selection(limit=4))
    show(score(judge(run)))
    # as an object, e.g. in a notebook
    pipeline = DiffusionPipeline.from_pretrained(source, use_safetensors=True)
    show(score(judge(rollout("mini", pipeline, selection=Selection(limit=1)))))


def show(scores):
    for history, entry in scores["histories"].items():
        shares = {name: round(part["sc"]["value"] or 0, 1) for name, part in entry["scenarios"].items()}
        print(history, entry["formula"], shares)


if __name__ == "__main__":
    main(*sys.argv[1:3])
