"""`yanami calibrate`: runs the parts of `calibration` over mini benches, and writes a table, a picture and JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from yanami_dataset.schema import Dialogue
from yanami_metric.asking import Rules
from yanami_metric.calibration import (
    CODECS,
    Case,
    Rate,
    Result,
    agreement,
    answer_cases,
    check_cases,
    error_rates,
    quality_cases,
    quality_curve,
    replies_of,
    run_cases,
    turned,
)
from yanami_metric.data import Selection, open_data
from yanami_metric.judges import close
from yanami_metric.loop import Loop
from yanami_metric.records import Judge
from yanami_metric.tables import number, percent, render

CHECK_LABELS = ("all", "kind", "capability", "predicate", "size", "codec")
ANSWER_LABELS = ("answer", "dimension")


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is asked.

    Args:
        dialogues: of the mini bench, an even sample over the scenarios.
        sizes: sides of the images in pixels.
        samples: how often the repeatability part asks the same.
        seed: of the mini bench.
        concurrency: calls in flight.
    """

    dialogues: int = 8
    sizes: tuple[int, ...] = (256,)
    samples: int = 2
    seed: int = 1
    concurrency: int = 8


def calibrate(judge: Judge, answer_judge: Judge, extent: Extent, rules: Rules) -> dict[str, Any]:
    """Measure judges on images and answers whose truth is known.

    Args:
        judge: of checks and quality.
        answer_judge: of answers.
        extent: how much is asked.
        rules: how judges are asked.

    Returns:
        JSON-able: error rates by label, the quality curve, agreement between repetitions, orders and ways to ask, and
        what the replies cost.
    """
    start = time.perf_counter()
    benches = [_bench(extent, size) for size in extent.sizes]
    checks = [case for bench in benches for codec in CODECS for case in check_cases(bench, rules, codec)]
    answers, quality = list(answer_cases(benches[0])), list(quality_cases(benches[0]))
    with Loop() as loop:
        for one in (judge, answer_judge):
            loop.at_end(partial(close, one))

        def asked(by: Judge, cases: Sequence[Case], how: Rules = rules, sample: int = 0) -> list[Result]:
            return loop.run(run_cases(by, cases, how, sample=sample, concurrency=extent.concurrency))

        on_checks, on_answers, on_quality = asked(judge, checks), asked(answer_judge, answers), asked(judge, quality)
        few = [case for case in checks if case.about["image"] == "intact" and case.about["codec"] == "png"]
        first = [result for result in on_checks if result.case in few]
        repeats = [asked(judge, few, sample=sample) for sample in range(1, extent.samples)]
        order = asked(judge, turned(few))
        single = asked(judge, list(_one_by_one(few)), replace(rules, checks_per_call=1))
    everything = [*on_checks, *on_answers, *on_quality, *order, *single, *(one for part in repeats for one in part)]
    return {
        "schema": 1,
        "judge": {"name": judge.name, "fingerprint": judge.fingerprint},
        "answer_judge": {"name": answer_judge.name, "fingerprint": answer_judge.fingerprint},
        "rules": rules.described(),
        "extent": asdict(extent),
        "checks": {label: _rates(error_rates(on_checks, label)) for label in CHECK_LABELS},
        "answers": {label: _rates(error_rates(on_answers, label)) for label in ANSWER_LABELS},
        "quality": quality_curve(on_quality),
        "repeatability": _mean([agreement(first, part) for part in repeats]),
        "order": agreement([one for one in first if len(one.case.call.items) > 1], order),
        "one_check_per_call": _agreement_by_item(first, single),
        "replies": replies_of(everything),
        "seconds": round(time.perf_counter() - start, 1),
    }


def _bench(extent: Extent, size: int) -> list[Dialogue]:
    return list(open_data("mini", Selection(limit=extent.dialogues), size=size, seed=extent.seed))


def _one_by_one(cases: Sequence[Case]) -> list[Case]:
    return [replace(case, call=replace(case.call, items=(item,))) for case in cases for item in case.call.items]


def _agreement_by_item(together: Sequence[Result], apart: Sequence[Result]) -> float | None:
    """Whether a check gets the verdict alone that it got among others."""
    alone = iter(apart)
    split = [(replace(result, verdicts=(verdict,)), next(alone)) for result in together for verdict in result.verdicts]
    return agreement([one for one, _ in split], [two for _, two in split])


def _mean(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else None


def _rates(rates: dict[str, dict[str, Rate]]) -> dict[str, Any]:
    return {
        label: {name: {**asdict(rate), "share": rate.share} for name, rate in pair.items()}
        for label, pair in sorted(rates.items())
    }


def markdown(found: dict[str, Any]) -> str:
    """The result as tables."""
    blocks = [f"# Calibration of {found['judge']['name']} and, of answers, {found['answer_judge']['name']}"]
    for title, part in (("Checks", found["checks"]), ("Answers", found["answers"])):
        rows = [["By", "Label", "Passes what is wrong", "Fails what is right", "Not scored"]]
        for label, entries in part.items():
            rows += [[label, name.replace("_", " "), *_rate_cells(pair)] for name, pair in entries.items()]
        blocks += [f"## {title}", render(rows)]
    rows = [["Damage", "Mean quality by step", "Rises"]]
    for damage, curve in found["quality"].items():
        steps = ", ".join(f"{step}: {number(value, 1)}" for step, value in curve["steps"].items())
        rows.append([damage, steps, percent(curve["rises"])])
    blocks += ["## Quality", render(rows), "Rises: how often one step more of damage got a better score."]
    same = [
        ["Agreement with the first time", "Share of checks"],
        ["asked again", percent(found["repeatability"])],
        ["checks in reverse order", percent(found["order"])],
        ["one check per call", percent(found["one_check_per_call"])],
    ]
    replies = found["replies"]
    statuses = ", ".join(f"{count} {status}" for status, count in replies["statuses"].items())
    blocks += ["## Steadiness", render(same), "## Replies"]
    blocks.append(
        f"{replies['calls']} calls, {replies['repeat_requests']} of them asked twice; items: {statuses}; "
        f"{replies['input_tokens']} + {replies['output_tokens']} tokens; {found['seconds']} s."
    )
    return "\n\n".join(blocks) + "\n"


def _rate_cells(pair: dict[str, Any]) -> list[str]:
    cells = []
    for rate in pair.values():
        cells.append(f"{percent(rate['share'])} ({rate['wrong']} of {rate['scored']})" if rate["scored"] else "–")
    return [*cells, str(sum(rate["asked"] - rate["scored"] for rate in pair.values()))]


def picture(found: dict[str, Any], path: Path) -> None:
    """Error rates by capability and the quality curves, as a PNG.

    Raises:
        MissingExtraError: matplotlib isn't installed.
    """
    from yanami_dataset.errors import MissingExtraError

    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("pictures need matplotlib: pip install 'yanami[plots]'") from error
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    entries = found["checks"]["predicate"]
    for offset, name, colour in ((-0.2, "passes what is wrong", "#d95f02"), (0.2, "fails what is right", "#1b9e77")):
        shares = [100 * (entry[name]["share"] or 0) for entry in entries.values()]
        left.barh([i + offset for i in range(len(entries))], shares, height=0.38, color=colour, label=name)
    left.set_yticks(range(len(entries)), list(entries))
    left.set(xlim=(0, 100), xlabel="% of items", title=f"{found['judge']['name']}: errors by kind of check")
    left.legend()
    for damage, curve in found["quality"].items():
        right.plot(range(len(curve["steps"])), list(curve["steps"].values()), marker="o", label=damage)
    right.set(ylim=(0, 10.5), xlabel="steps of damage", ylabel="mean quality, 0-10", title="Quality along known damage")
    if found["quality"]:
        right.legend()
    figure.savefig(path, dpi=110)
