"""module:Class: a model of one's own is a class with caps, identity and generate.

    python examples/own_model.py
    cd examples && yanami eval --model own_model:Turned --set degrees=90 --history gt,self --limit 8

No network, GPU or key is needed. The mini bench is a smoke test: its numbers are no YANAMI-Bench scores.
"""

from io import BytesIO

from PIL import Image

from yanami_metric import Caps, Output
from yanami_metric.api import judge, rollout, score
from yanami_metric.mini import mini_folder


class Turned:
    """Draws the last image that it is shown, turned round; can't answer questions."""

    caps = Caps(outputs=frozenset({"images"}), min_images=1)
    identity = "turned/1"  # what the weights are, e.g. a commit; results are kept under it

    def __init__(self, degrees=180):
        self.degrees = degrees

    def generate(self, requests):
        return [Output(images=[self.draw(request)] * request.count) for request in requests]

    def draw(self, request):
        with Image.open(BytesIO(request.images[-1].read())) as image:
            return image.rotate(self.degrees)


def main():
    run = rollout(mini_folder(dialogues=8), Turned(), history=("gt", "self"))
    for history, scores in score(judge(run))["histories"].items():
        print(history, {name: round(scores[name]["value"], 1) for name in ("overall", "sc", "vq")})


if __name__ == "__main__":
    main()
