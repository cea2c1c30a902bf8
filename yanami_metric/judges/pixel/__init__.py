"""The judge of the mini bench that reads pixels: colours, regions, shapes and places, without any model.

Image -> `segment` (regions of one colour) -> `shapes` (what each region is) -> `extract` (the picture) -> `probes`
(verdicts) and `quality` (0 to 10). Nothing here knows the scene, the dialogue or how the renderer draws.
"""

from yanami_metric.judges.pixel.extract import Picture, Thing, extract
from yanami_metric.judges.pixel.judge import PixelJudge
from yanami_metric.judges.pixel.probes import decide

__all__ = ["Picture", "PixelJudge", "Thing", "decide", "extract"]
