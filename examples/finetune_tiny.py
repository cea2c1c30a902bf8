"""Scores while a model learns: a tiny editor of images, trained on mini dialogues with an evaluation every so often.

    python examples/finetune_tiny.py [STEPS] [TRACKERS]        # e.g. 600 trackio,tensorboard

The model sees the colour of one pixel of the latest image and the words of the request, and says which colour the pixel
is to have: enough to learn to keep a picture and to paint backgrounds. It takes half a minute on a CPU. The mini bench
is a smoke test: its numbers are no YANAMI-Bench scores.
"""

import sys
import zlib
from io import BytesIO

import numpy as np
import torch
from PIL import Image

from yanami_metric import Caps, Output, open_data
from yanami_metric.history import Settings, Storyteller
from yanami_metric.mini import mini_folder
from yanami_metric.training.inloop import InLoop

WORDS, WIDTH = 128, 96


def pixels(data):
    """An image as (pixels, 3) numbers, 0-1."""
    with Image.open(BytesIO(data)) as image:
        return torch.from_numpy(np.asarray(image.convert("RGB")).reshape(-1, 3) / np.float32(255))


def words(request):
    """The words of the user's last message, each at a place of its own (or nearly so)."""
    found = torch.zeros(WORDS)
    for word in request.messages[-1].text.lower().replace(".", " ").split():
        found[zlib.crc32(word.encode()) % WORDS] = 1
    return found


class Editor(torch.nn.Module):
    """Any torch module is a model for yanami if it has caps, identity and generate."""

    caps = Caps(outputs=frozenset({"images"}), min_images=1)
    identity = "tiny editor"

    def __init__(self):
        super().__init__()
        self.colour, self.text = torch.nn.Linear(3, WIDTH), torch.nn.Linear(WORDS, WIDTH)
        self.rest = torch.nn.Sequential(
            torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 3)
        )

    def forward(self, colours, text):
        return self.rest(self.colour(colours) + self.text(text))

    def generate(self, requests):
        return [Output(images=[self.draw(request)] * request.count) for request in requests]

    def draw(self, request):
        shown = request.images[-1]
        colours, places = torch.unique(pixels(shown.read()), dim=0, return_inverse=True)  # only a few hundred
        drawn = self(colours, words(request)).clamp(0, 1)[places].reshape(shown.height, shown.width, 3)
        return Image.fromarray((drawn * 255).round().byte().numpy())


def examples(dialogues):
    """(pixels shown, words, pixels wanted) of every slot of the dialogues that has an image in view."""
    for dialogue in dialogues:
        teller = Storyteller(dialogue, Settings("gt"))
        for slot in dialogue.slots:
            request = teller.draw(slot.turn)
            if request.images:
                yield pixels(request.images[-1].read()), words(request), pixels(dialogue.images[slot.index])


def train(model, pairs, steps, in_loop):
    """Adam on pixels drawn at random; yields the scores of each evaluation."""
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(steps + 1):
        if scores := in_loop.evaluate(model, step):
            yield step, scores
        chosen = [pairs[i] for i in torch.randint(len(pairs), (16,))]
        places = torch.randint(len(chosen[0][0]), (512,))
        shown, wanted = (torch.stack([one[i][places] for one in chosen]) for i in (0, 2))
        text = torch.stack([one[1] for one in chosen])[:, None]
        loss = (model(shown, text) - wanted).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(steps=300, trackers="none"):
    torch.manual_seed(0)
    data = mini_folder(dialogues=40, quiet=True)
    in_loop = InLoop(data, limit=8, every=steps // 2, trackers=trackers)
    held_out = {dialogue.id for dialogue in in_loop.data}
    pairs = list(examples(dialogue for dialogue in open_data(data) if dialogue.id not in held_out))
    for step, scores in train(Editor(), pairs, steps, in_loop):
        print(step, {name: round(scores[f"yanami/gt/{name}"], 1) for name in ("vr", "sc", "vq")})


if __name__ == "__main__":
    main(*(kind(value) for kind, value in zip((int, str), sys.argv[1:], strict=False)))
