"""What models understand and still don't draw: the understanding-realization gap (the paper's Table 21). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations
from typing import Any

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import CAPABILITIES, DIMENSIONS
from yanami_metric.analysis.finding import Chart, Finding, Table, covered, series, spread
from yanami_metric.estimates import NOTHING, Row, Sample, blank, equal, mix, ordered
from yanami_metric.tally import Count, DialogueTally

MINIMUM = 20
"""Dialogues that each shared subset needs (**ours**): below that the gap is mostly chance."""
PARTS = {"constraint_keeping": "constraint_tracking", "correction_updating": "correction_updating"}
"""By capability whose checks are drawn, the dimension whose question is understood."""


def gap(
    models: Mapping[str, Sequence[DialogueTally]], *, minimum: int = MINIMUM, resamples: int = 1000, seed: int = 0
) -> Finding:
    """The share of failed capability checks on dialogues that every model understands; lower is better.

    Over the dialogues whose `constraint_tracking` (resp. `correction_updating`) question every model answers correctly,
    the mean over dialogues of 1 - the share of passed capability checks of `constraint_keeping` (resp.
    `correction_updating`); overall is the mean of the two. The mean over dialogues is **inferred**: the published
    values are no shares of one common set of checks.

    Both subsets are drawn together in the bootstrap, as many dialogues are in both.

    Args:
        models: by name the tallies of one history, usually `gt`; at least two.
        minimum: of dialogues in each of the two shared subsets, 1 or more.
        resamples: of the bootstrap over dialogues within scenarios.
        seed: of the bootstrap.

    Returns:
        `values`: `models`, by name `constraint_keeping`, `correction_updating` and `overall` on 0-1; `differences`, of
        each pair of models (`one` - `other`) the same; `subsets`, by capability how many dialogues were `shared`,
        `asked` (the question and such checks), `understood` by all, and `by_scenario`, the latter in each.

    Raises:
        SpecError: fewer than two models, or a minimum below 1.
        DataError: fewer than `minimum` dialogues are left, or a model has no scored answer at all.
    """
    if len(models) < 2:
        raise SpecError(f"gap: expected two or more runs to find what all of them understand, got {len(models)}")
    if minimum < 1:
        raise SpecError(f"gap: expected a minimum of 1 or more dialogues, got {minimum}")
    by_id = {name: {one.dialogue: one for one in tallies} for name, tallies in models.items()}
    first = next(iter(by_id.values()))
    shared = [one for id_, one in first.items() if all(id_ in found for found in by_id.values())]
    subsets: dict[str, dict[str, Any]] = {}
    kept: dict[str, DialogueTally] = {}
    understood: dict[str, frozenset[str]] = {}
    for capability in PARTS:
        some, subsets[capability] = _subset(shared, by_id, capability)
        _enough(capability, subsets[capability], by_id, minimum)
        kept |= {one.dialogue: one for one in some}
        understood[capability] = frozenset(one.dialogue for one in some)
    means = Sample(ordered(kept.values()), resamples, seed).means(_rows(list(by_id.values()), understood))
    scores = {
        name: dict(zip(PARTS, means[len(PARTS) * n : len(PARTS) * (n + 1)], strict=True))
        for n, name in enumerate(models)
    }
    for found in scores.values():
        found["overall"] = mix([(0.5, found[capability]) for capability in PARTS])
    entries = {name: {key: score.entry(scale=1) for key, score in found.items()} for name, found in scores.items()}
    differences = [
        {"one": one, "other": other,
         **{key: (score - scores[other][key]).entry(scale=1) for key, score in scores[one].items()}}
        for one, other in combinations(scores, 2)
    ]  # fmt: skip
    return _finding({"models": entries, "differences": differences, "subsets": subsets, "minimum": minimum})


def _subset(
    shared: Sequence[DialogueTally], by_id: Mapping[str, Mapping[str, DialogueTally]], capability: str
) -> tuple[list[DialogueTally], dict[str, Any]]:
    asked = [one for one in shared if _question(one, capability).asked and _checks(one, capability).asked]
    kept = [one for one in asked if all(_right(_question(found[one.dialogue], capability)) for found in by_id.values())]
    by_scenario = dict(sorted(Counter(one.scenario for one in kept).items()))
    return kept, {"shared": len(shared), "asked": len(asked), "understood": len(kept), "by_scenario": by_scenario}


def _question(one: DialogueTally, capability: str) -> Count:
    return one.questions[DIMENSIONS.index(PARTS[capability])]


def _checks(one: DialogueTally, capability: str) -> Count:
    return one.capabilities[CAPABILITIES.index(capability)]


def _right(count: Count) -> bool:
    return count.asked > 0 and count.scored == count.asked and count.gained == count.asked


def _rows(
    models: Sequence[Mapping[str, DialogueTally]], understood: Mapping[str, Collection[str]]
) -> Callable[[DialogueTally], list[Row]]:
    """Of each model a row for each of PARTS; a dialogue has none where it isn't understood."""

    def rows(one: DialogueTally) -> list[Row]:
        parts = [
            blank([_row(found[one.dialogue], capability) for found in models])
            if one.dialogue in understood[capability]
            else [NOTHING] * len(models)
            for capability in PARTS
        ]
        return [part[n] for n in range(len(models)) for part in parts]

    return rows


def _row(one: DialogueTally, capability: str) -> Row:
    """The share of failed checks of a dialogue."""
    row = equal(_checks(one, capability))
    if not row.asked_units:
        return NOTHING
    failed = 1 - row.gained if row.units else 0.0
    return row._replace(gained=failed, lowest=1 - row.highest, highest=1 - row.lowest)


def _enough(
    capability: str, subset: Mapping[str, Any], by_id: Mapping[str, Mapping[str, DialogueTally]], minimum: int
) -> None:
    if subset["understood"] >= minimum:
        return
    if mute := [
        name for name, found in by_id.items() if not any(_question(one, capability).scored for one in found.values())
    ]:
        raise DataError(
            f"gap, {capability}: expected runs whose {PARTS[capability]} questions are answered and judged, got none "
            f"scored of {', '.join(mute)}: leave out models that can't answer, and judge the others"
        )
    right = ", ".join(
        f"{name} {sum(_right(_question(one, capability)) for one in found.values())}" for name, found in by_id.items()
    )
    raise DataError(
        f"gap, {capability}: expected at least {minimum} dialogues that every model understands, got "
        f"{subset['understood']}: {subset['shared']} are shared, {subset['asked']} of them ask a {PARTS[capability]} "
        f"question and have capability checks; answered correctly: {right}"
    )


def _finding(values: dict[str, Any]) -> Finding:
    keys = (*PARTS, "overall")
    header = ("Model", "CK", "CU", "Overall", "Overall, 95 %", "Coverage")
    rows = [
        (name, *(found[key]["value"] for key in keys), spread(found["overall"], 3), covered(found["overall"]))
        for name, found in values["models"].items()
    ]
    left = [
        (capability, found["shared"], found["asked"], found["understood"],
         ", ".join(f"{scenario} {number}" for scenario, number in found["by_scenario"].items()))
        for capability, found in values["subsets"].items()
    ]  # fmt: skip
    pairs = [
        (f"{found['one']} - {found['other']}", *(found[key]["value"] for key in keys), spread(found["overall"], 3))
        for found in values["differences"]
    ]
    bars = tuple(series(name, keys, [found[key] for key in keys]) for name, found in values["models"].items())
    return Finding(
        "gap",
        "Understanding-realization gap",
        "arXiv 2611.05280, Table 21; the mean over dialogues is inferred",
        values,
        (
            Table("Share of failed capability checks, 0-1, lower is better", header, tuple(rows), digits=4),
            Table("Differences, paired", ("Models", *header[1:5]), tuple(pairs), digits=4),
            Table(
                "The shared subset",
                ("Capability", "Shared dialogues", "With question and checks", "Understood by all", "By scenario"),
                tuple(left),
            ),
        ),
        (Chart("Understanding-realization gap", "bars", "", "share failed, 0-1", bars, (0, 1)),),
        (
            "CK: constraint_keeping, on dialogues whose constraint_tracking question all models answer correctly. CU: "
            "the capability correction_updating, on dialogues whose question of that dimension all answer correctly.",
            "A dialogue whose checks are unscored in one model counts for none; bounds are over all.",
        ),
    )
