"""The vocabulary of the mini bench: colours with their sRGB values, shapes, cells, sizes.

All that the renderer and the pixel judge share. Not here: how anything is drawn, measured or arranged.
"""

from __future__ import annotations

# sRGB, 0-255. Chosen far apart in Oklab, so that JPEG and noise don't turn one into another.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 39, 40),
    "orange": (250, 140, 20),
    "yellow": (246, 222, 50),
    "green": (30, 140, 60),
    "blue": (30, 80, 200),
    "purple": (140, 50, 180),
    "brown": (115, 65, 35),
    "black": (25, 25, 28),
}
BACKGROUNDS: dict[str, tuple[int, int, int]] = {
    "white": (250, 250, 250),
    "grey": (176, 180, 186),
    "light blue": (170, 214, 245),
    "pink": (250, 190, 208),
}
SHAPES = ("circle", "square", "triangle", "diamond", "star", "cross")
SIZES = ("small", "large")
ROWS = ("top", "middle", "bottom")
COLUMNS = ("left", "center", "right")
CELLS = tuple(f"{row} {column}" for row in ROWS for column in COLUMNS)
RELATIONS = ("left of", "right of", "above", "below")
