"""Small dialogues by hand, for tests that count and break things."""

from __future__ import annotations

from tests.strategies import colour_png
from yanami_dataset.images import inspect, sha256
from yanami_dataset.schema import Check, Dialogue, ImageInfo, Message, Part, Question, StateOp, Turn


def edited(id: str = "d1", scenario: str = "editing", start: bytes | None = None, end: bytes | None = None) -> Dialogue:
    """One turn: an uploaded image, a target drawn from it, a question and a check."""
    images = (colour_png(1) if start is None else start, colour_png(2) if end is None else end)
    facts = [inspect(data) for data in images]
    info = [
        ImageInfo(role, 0, sha256(data), fact.width, fact.height, "drawn", "cc0-1.0")
        for role, data, fact in zip(("reference", "target"), images, facts, strict=True)
    ]
    ask = Message("user", (Part("text", f"Make it darker, {id}."), Part("image", index=0)))
    draw = Message("assistant", (Part("text", "Done."), Part("image", index=1)))
    return Dialogue(
        id,
        scenario,
        (ask, draw),
        (Turn(("constraint_keeping",), (StateOp("establish", "light", "dark"),)),),
        images,
        tuple(info),
        (Question("q1", "context_retrieval", 0, "Which image came first?", "the light one", ("light", "dark"), (0,)),),
        (Check("c1", 0, 0, "The image is darker.", "atomic", "constraint_keeping"),),
        "by hand",
    )
