"""The formulas of the benchmark, on plain numbers: DSU, VR, overall, and their weights.

They know no dialogues, verdicts or files; `score` applies the same shares to counts, intervals and bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from yanami_dataset.errors import SpecError


@dataclass(frozen=True, slots=True)
class Weights:
    """How the scores are weighted: `dsu` is its share of overall, `sc` and `vq` are their shares of VR.

    0.6 : 0.4 is recovered from 24 published rows (17 exact, 7 within the rounding of their inputs). 0.40 for DSU is
    inferred: the paper's appendix B.3 isn't at hand, and 0.40 is the one round weight that puts three published
    models between their first- and last-turn scores.

    Raises:
        SpecError: a weight outside 0-1, or `sc` and `vq` that don't add up to 1.

    >>> Weights().shares(with_dsu=True)
    {'dsu': 0.4, 'sc': 0.36, 'vq': 0.24}
    >>> Weights().shares(with_dsu=False)
    {'dsu': 0.0, 'sc': 0.6, 'vq': 0.4}
    """

    dsu: float = 0.40
    sc: float = 0.6
    vq: float = 0.4

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 <= value <= 1:  # also False for NaN
                raise SpecError(f"weights.{name}: expected a share from 0 to 1, got {value}")
        if not math.isclose(self.sc + self.vq, 1):
            raise SpecError(f"weights: expected sc + vq = 1 (their shares of VR), got {self.sc} + {self.vq}")

    def shares(self, *, with_dsu: bool) -> dict[str, float]:
        """The shares of DSU, SC and VQ in overall; without DSU those in VR."""
        rest = 1 - self.dsu if with_dsu else 1.0
        shares = {"dsu": self.dsu if with_dsu else 0.0, "sc": rest * self.sc, "vq": rest * self.vq}
        return {name: round(share, 12) for name, share in shares.items()}  # 0.24, not 0.24000000000000002

    def formula(self, *, with_dsu: bool) -> str:
        """The formula of overall in words.

        >>> Weights().formula(with_dsu=True)
        '0.4 DSU + 0.36 SC + 0.24 VQ'
        """
        shares = self.shares(with_dsu=with_dsu).items()
        return " + ".join(f"{share:g} {name.upper()}" for name, share in shares if with_dsu or name != "dsu")


DEFAULT = Weights()


def vr(sc: float, vq: float, weights: Weights = DEFAULT) -> float:
    """Visual realization of one scenario, all 0-100.

    >>> round(vr(90.3, 81.4), 2)
    86.74
    """
    return overall(None, sc, vq, weights)


def dsu(
    reference_resolution: float, context_retrieval: float, constraint_tracking: float, correction_updating: float
) -> float:
    """Dialogue-state understanding of one scenario: the mean of its four dimensions, all 0-100.

    >>> dsu(31, 63, 60, 33)
    46.75
    """
    return macro((reference_resolution, context_retrieval, constraint_tracking, correction_updating))


def overall(dsu: float | None, sc: float, vq: float, weights: Weights = DEFAULT) -> float:
    """The overall score of one scenario, all 0-100; `dsu` is None for a model that can't answer in text.

    None must come from what the model can do, never from DSU being unknown: the two formulas aren't comparable.

    Raises:
        SpecError: a score that isn't from 0 to 100.

    >>> overall(80, 60, 50)
    65.6
    >>> overall(None, 60, 50)
    56.0
    """
    scores = {"dsu": dsu or 0.0, "sc": sc, "vq": vq}
    for name, value in scores.items():
        if not 0 <= value <= 100:
            raise SpecError(f"{name}: expected a score from 0 to 100, got {value}")
    shares = weights.shares(with_dsu=dsu is not None)
    return math.fsum(shares[name] * value for name, value in scores.items())


def macro(values: Iterable[float]) -> float:
    """The plain mean, each value counting the same: of dimensions, or of scenarios.

    >>> macro([100, 50])
    75.0
    """
    scores = list(values)
    if not scores:
        raise SpecError("expected at least one score to average, got none")
    return math.fsum(scores) / len(scores)
