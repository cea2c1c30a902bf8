"""The pixel judge as the others see it: calls in, JSON replies out. Extraction and verdicts are done elsewhere."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.images import open_rgb
from yanami_metric.judges.pixel.extract import Picture, extract
from yanami_metric.judges.pixel.probes import decide
from yanami_metric.records import ImageRef, JudgeCall, JudgeItem, Reply

VERSION = 1  # goes up with every change that may change a verdict
_REMEMBERED = 512  # pictures, each of a few hundred bytes


class PixelJudge:
    """Judges checks and quality of mini-bench images by measuring their pixels.

    It answers items that carry a probe and says `not_judgeable` to all others. It never sees dialogue, scene or target.
    """

    name = "pixel"
    kinds = frozenset({"checks", "quality"})
    reads_prompt = False

    def __init__(self) -> None:
        self._pictures: OrderedDict[str, Picture] = OrderedDict()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Its name and version."""
        return {"judge": self.name, "version": VERSION}

    async def judge(self, call: JudgeCall) -> Reply:
        """Answer a call of kind checks or quality.

        Raises:
            SpecError: another kind, no candidate, or a quality call that hasn't exactly one item.
            ImageError: the candidate can't be decoded.
        """
        if call.kind not in self.kinds or call.candidate is None:
            raise SpecError(
                f"pixel judge: expected checks or quality of a candidate image, got {call.kind} of {call.candidate}"
            )
        if call.kind == "checks":
            checks = [{"id": item.id, **self._check(item, call.candidate)} for item in call.items]
            return Reply(json.dumps({"checks": checks}))
        if len(call.items) != 1:
            raise SpecError(f"pixel judge: expected one item in a quality call, got {len(call.items)}")
        return Reply(json.dumps(self._quality(call.items[0], call.candidate)))

    def picture(self, image: ImageRef) -> Picture:
        """What is seen in an image; each is looked at once as long as it is remembered.

        Raises:
            ImageError: it can't be decoded.
        """
        known = self._pictures.pop(image.sha256, None)
        self._pictures[image.sha256] = known or extract(open_rgb(image.read()))
        if len(self._pictures) > _REMEMBERED:
            self._pictures.popitem(last=False)
        return self._pictures[image.sha256]

    def _check(self, item: JudgeItem, candidate: ImageRef) -> dict[str, str]:
        if item.probe is None:
            return {"reason": "it has no probe, so there is nothing to measure", "verdict": "not_judgeable"}
        picture = self.picture(candidate)
        try:
            holds, reason = decide(picture, _probe(item.probe))
        except DataError as error:
            return {"reason": str(error), "verdict": "not_judgeable"}
        return {"reason": reason, "verdict": "pass" if holds else "fail"}

    def _quality(self, item: JudgeItem, candidate: ImageRef) -> dict[str, Any]:
        if item.probe is None or not _asks_for_quality(item.probe):
            return {"reason": "it has no quality probe: not an image of the mini bench", "verdict": "not_judgeable"}
        picture = self.picture(candidate)
        if not picture.objects:
            return {"reason": "no object seen", "score": 0.0}
        seen = picture.measures
        reason = f"noise {seen.noise:.3f}, drift of colours {seen.drift:.3f}, edges {seen.softness:.1f} pixels wide"
        return {"reason": reason, "score": picture.quality}


def _probe(text: str) -> Any:
    """A probe from its JSON; what it may hold is checked by `decide`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"probe: expected JSON, got {text[:80]!r} ({error})") from None


def _asks_for_quality(text: str) -> bool:
    try:
        return bool(_probe(text) == {"predicate": "quality"})
    except DataError:
        return False
