"""Judges: `open_judge` turns a spec string into one (the protocol is `records.Judge`).

pixel           reads the pixels of a mini-bench image; checks and quality
exact           compares normalised text; answers
module:Class    anyone's own; options go to its constructor
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yanami_dataset.errors import SpecError
from yanami_metric.records import Judge
from yanami_metric.specs import load_class

KINDS = frozenset({"answer", "checks", "quality"})


def open_judge(spec: str, options: Mapping[str, Any] | None = None) -> Judge:
    """The judge a spec string names.

    Raises:
        SpecError: an unknown spec, options that it doesn't take, or an object that is no judge.
    """
    options = dict(options or {})
    if spec in ("pixel", "exact") and options:
        raise SpecError(f"judge {spec}: takes no options, got {', '.join(options)}")
    if spec == "pixel":
        from yanami_metric.judges.pixel import PixelJudge

        return PixelJudge()
    if spec == "exact":
        from yanami_metric.judges.exact import ExactJudge

        return ExactJudge()
    if ":" not in spec:
        raise SpecError(f"expected a judge spec: pixel, exact or module:Class, got {spec!r}")
    return check_judge(load_class(spec, "judge")(**options), spec)


def check_judge(judge: Any, name: str) -> Judge:
    """The object itself, if it fulfils the Judge protocol.

    Raises:
        SpecError: naming what is missing.
    """
    missing = [part for part in ("name", "kinds", "reads_prompt", "fingerprint", "judge") if not hasattr(judge, part)]
    if missing:
        raise SpecError(f"{name} can't be used as a judge: it has no {', '.join(missing)}")
    if unknown := set(judge.kinds) - KINDS:
        raise SpecError(f"{name}: expected kinds among {', '.join(sorted(KINDS))}, got {', '.join(sorted(unknown))}")
    return judge  # type: ignore[no-any-return]
