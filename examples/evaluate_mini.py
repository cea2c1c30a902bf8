"""load_dataset -> rollout -> evaluate.load("yanami").compute, with a model of one's own, on the mini bench.

    pip install '.[evaluate]'
    python examples/evaluate_mini.py

No network, GPU or key is needed. The mini bench is a smoke test: its numbers are no YANAMI-Bench scores.
"""

from io import BytesIO

import evaluate
from datasets import load_dataset
from PIL import Image, ImageOps

from yanami_metric import Caps, Output
from yanami_metric.api import predictions, rollout
from yanami_metric.install import install
from yanami_metric.mini import mini_folder


class Mirror:
    """Draws the last image that it is shown, mirrored, and answers every question with "red circle"."""

    caps = Caps()
    identity = "mirror/1"  # what the weights are, e.g. a commit; results are kept under it

    def generate(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        if request.expects == "text":
            return Output(text="red circle")
        if not request.images:
            return Output(status="missing_output", reason="nothing to mirror")
        with Image.open(BytesIO(request.images[-1].read())) as image:
            return Output(images=[ImageOps.mirror(image)] * request.count)


def main():
    bench = load_dataset(str(mini_folder(dialogues=20)), split="test")
    install()  # once: evaluate.load("yanami") then works without a network
    metric = evaluate.load("yanami", data=bench)
    for history in ("gt", "self"):
        run = rollout(bench, Mirror(), history=history)
        found = predictions(run, history)
        scores = metric.compute(predictions=found, references=bench["id"])
        print(history, {name: round(scores[name], 1) for name in ("overall", "vr", "dsu", "sc", "vq")})


if __name__ == "__main__":
    main()
