"""Judges: `open_judge` turns a spec string into one (the protocol is `records.Judge`).

pixel                        reads the pixels of a mini-bench image; checks and quality
exact                        compares normalised text; answers
openai:<model>@<base url>    a model behind an OpenAI-compatible server
transformers:<id or folder>  a local model in this process
module:Class                 anyone's own; options go to its constructor
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from yanami_dataset.errors import SpecError
from yanami_metric.records import Judge
from yanami_metric.specs import construct, refuse_secrets, split_options

KINDS = frozenset({"answer", "checks", "quality"})
PLAIN = ("pixel", "exact")  # judges without options


def open_judge(spec: str, options: Mapping[str, Any] | None = None) -> Judge:
    """The judge a spec string names.

    Args:
        spec: as in this module's docstring.
        options: `load.NAME` goes to loading or to the connection, `tag` names what a model's name hides; every other
            NAME goes to the judge's call. For `module:Class` all go to its constructor.

    Raises:
        SpecError: an unknown spec, options that it doesn't take, or an object that is no judge.
    """
    options = dict(options or {})
    refuse_secrets(options)
    scheme, _, rest = spec.partition(":")
    if spec in PLAIN:
        if options:
            raise SpecError(f"judge {spec}: takes no options, got {', '.join(options)}")
        return _plain(spec)
    if not rest:
        listed = ", ".join([*PLAIN, *(f"{name}:<…>" for name in ADAPTERS)])
        raise SpecError(f"expected a judge spec: {listed} or module:Class, got {spec!r}")
    if scheme in ADAPTERS:
        tag = options.pop("tag", None)
        load, call = split_options(options)
        return check_judge(ADAPTERS[scheme]()(rest, load=load, call=call, tag=tag), spec)
    return check_judge(construct(spec, "judge", options), spec)


def _plain(spec: str) -> Judge:
    if spec == "pixel":
        from yanami_metric.judges.pixel import PixelJudge

        return PixelJudge()
    from yanami_metric.judges.exact import ExactJudge

    return ExactJudge()


def _openai() -> Any:
    from yanami_metric.judges.openai import OpenAIJudge

    return OpenAIJudge


def _transformers() -> Any:
    from yanami_metric.judges.transformers import TransformersJudge

    return TransformersJudge


ADAPTERS: dict[str, Callable[[], Any]] = {"openai": _openai, "transformers": _transformers}


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


async def close(judge: Judge) -> None:
    """Free what a judge holds; it may be asked again. In the event loop that it was asked in."""
    aclose: Any = getattr(judge, "aclose", None)
    plain: Any = getattr(judge, "close", None)
    if aclose is not None:
        await aclose()
    elif plain is not None:
        plain()
