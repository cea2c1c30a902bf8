"""Options that commands share, as dataclasses: a command decorated with `spread` takes one as an argument."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from yanami_metric.panel import Judging

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Make each field of an argument that is a dataclass an option of its own: typer knows no nested ones."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def flat(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(
            field.name,
            kind,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


def seconds(text: str) -> float:
    """A duration such as 90, 90s, 20m or 2h, in seconds.

    Raises:
        SpecError: it is none.

    >>> seconds("20m"), seconds("1.5h"), seconds("90")
    (1200.0, 5400.0, 90.0)
    """
    from yanami_dataset.errors import SpecError

    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if found is None:
        raise SpecError(f"expected a duration such as 90s, 20m or 2h, got {text!r}")
    return float(found[1]) * _SECONDS[found[2]]


@dataclass
class JudgingOptions:
    """Who judges, and how."""

    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", help="Judge of images; repeatable. (default: pixel)", show_default=False),
    ] = None
    answer_judge: Annotated[str, typer.Option("--answer-judge", help="Judge of answers.")] = "exact"
    judge_set: Annotated[
        list[str] | None,
        typer.Option("--judge-set", help="NAME=VALUE for judges, load.NAME=VALUE for their connection; repeatable."),
    ] = None
    judge_tag: Annotated[
        str | None, typer.Option("--judge-tag", help="Names what a judge's model name hides: a quantization, …")
    ] = None
    judge_context: Annotated[
        str, typer.Option("--judge-context", help="What a judge of checks sees: candidate, history or target (too).")
    ] = "history"
    checks_per_call: Annotated[
        int | None, typer.Option("--checks-per-call", help="Checks of an image in one call. (default: all)")
    ] = None
    samples: Annotated[int, typer.Option("--samples", help="Ask so often: majority of checks, mean of quality.")] = 1
    prompts: Annotated[Path | None, typer.Option("--prompts", help="A folder of prompts that replace ours.")] = None
    concurrency: Annotated[int, typer.Option("--concurrency", help="Judge calls in flight, fewer under pressure.")] = 8
    cache: Annotated[Path | None, typer.Option("--cache", help="A folder of verdicts that runs share.")] = None
    retry: Annotated[
        list[str] | None, typer.Option("--retry", help="Ask again where a verdict has this status, e.g. refused.")
    ] = None
    max_failures: Annotated[
        int | None, typer.Option("--max-failures", help="Stop when so many judge calls have failed.")
    ] = None
    judge_wait: Annotated[str, typer.Option("--judge-wait", help="Wait so long for a judge's server: 90s, 20m.")] = "0s"
    local_only: Annotated[
        bool, typer.Option("--local-only", help="Refuse addresses that are neither loopback nor private.")
    ] = False
    price_input: Annotated[float, typer.Option("--price-input", help="Of a million tokens of judges' input.")] = 0.0
    price_output: Annotated[float, typer.Option("--price-output", help="Of a million tokens of judges' output.")] = 0.0
    max_cost: Annotated[float | None, typer.Option("--max-cost", help="Stop when judging has cost so much.")] = None

    @property
    def judges(self) -> list[str]:
        """Of images."""
        return self.judge or ["pixel"]

    def judging(self) -> Judging:
        """How they are asked.

        Raises:
            SpecError: a value that makes no sense.
        """
        from yanami_metric.asking import Rules
        from yanami_metric.cli.wanted import named_values
        from yanami_metric.costs import Prices
        from yanami_metric.panel import Judging
        from yanami_metric.prompts import load_prompts

        options = named_values("--judge-set", self.judge_set or [])
        return Judging(
            rules=Rules(self.judge_context, self.checks_per_call, self.samples, load_prompts(self.prompts)),
            concurrency=self.concurrency,
            retry=tuple(self.retry or ()),
            cache=self.cache,
            max_failures=self.max_failures,
            options=options | ({"tag": self.judge_tag} if self.judge_tag else {}),
            wait=seconds(self.judge_wait),
            local_only=self.local_only,
            prices=Prices(self.price_input, self.price_output),
            max_cost=self.max_cost,
        )
