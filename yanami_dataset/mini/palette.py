"""The vocabulary of the mini bench: colours with their sRGB values, shapes, cells, sizes.

All that the renderer and the pixel judge share. Not here: how anything is drawn, measured or arranged.
"""

from __future__ import annotations

# sRGB, 0-255. Chosen far apart in Oklab (at least 0.14 between any two), so that JPEG and noise don't turn one into
# another.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 39, 40),
    "orange": (250, 140, 20),
    "yellow": (246, 222, 50),
    "green": (30, 140, 60),
    "blue": (30, 80, 200),
    "purple": (160, 60, 180),
    "brown": (110, 62, 32),
    "black": (25, 25, 28),
}
BACKGROUNDS: dict[str, tuple[int, int, int]] = {
    "white": (250, 250, 250),
    "grey": (160, 162, 166),
    "light blue": (150, 208, 250),
    "pink": (252, 178, 204),
}
SHAPES = ("circle", "square", "triangle", "diamond", "star", "cross")
SIZES = ("small", "large")
ROWS = ("top", "middle", "bottom")
COLUMNS = ("left", "center", "right")
CELLS = tuple(f"{row} {column}" for row in ROWS for column in COLUMNS)
RELATIONS = ("left of", "right of", "above", "below")
