"""What judging costs: prices, a budget, and what is still to be asked. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from yanami_dataset.errors import SpecError, YanamiError

Tokens = tuple[int, int]


class BudgetSpentError(YanamiError):
    """Judging was stopped: it has cost what it may, or what it costs can't be known."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Of a million tokens, in any currency.

    >>> Prices(2.0, 8.0).of((1_000_000, 500_000))
    6.0
    """

    input: float = 0.0
    output: float = 0.0

    def __post_init__(self) -> None:
        if self.input < 0 or self.output < 0:
            raise SpecError(f"prices: expected 0 or more, got {self.input} and {self.output}")

    def __bool__(self) -> bool:
        return bool(self.input or self.output)

    def of(self, tokens: Tokens) -> float:
        """What so many tokens, in and out, cost."""
        return (self.input * tokens[0] + self.output * tokens[1]) / 1_000_000


class Budget:
    """Counts what calls cost, and says when it is enough. What is under way then still comes to its end.

    Args:
        prices: of tokens.
        most: what may be spent; None: anything.

    Raises:
        SpecError: a limit without prices.
    """

    def __init__(self, prices: Prices, most: float | None = None) -> None:
        if most is not None and (not prices or most < 0):
            raise SpecError("max cost: expected a limit of 0 or more, and prices: --price-input and --price-output")
        self.prices, self.most = prices, most
        self.tokens: Tokens = (0, 0)
        self._unknown = False

    @property
    def spent(self) -> float:
        """So far."""
        return self.prices.of(self.tokens)

    def add(self, tokens: tuple[int | None, int | None]) -> None:
        """Count a call; None: the server didn't say."""
        self._unknown |= None in tokens
        self.tokens = self.tokens[0] + (tokens[0] or 0), self.tokens[1] + (tokens[1] or 0)

    def check(self) -> None:
        """Ask before each call.

        Raises:
            BudgetSpentError: nothing is left, or a limit can't be kept as the server doesn't say tokens.
        """
        if self.most is None:
            return
        if self._unknown:
            raise BudgetSpentError("the judge's server doesn't say how many tokens it took: --max-cost can't be kept")
        if self.spent >= self.most:
            allowed = f"the {self.most:.2f} that --max-cost allows"
            raise BudgetSpentError(f"judging has cost {self.spent:.2f} of {allowed}; what was judged is kept")


@dataclass
class Estimate:
    """What is still to be asked: calls by kind, images in them, and tokens if some calls of each kind were made before.

    `tokens` are those that the calls before took on average, None where a kind was never asked.
    """

    calls: Counter[str] = field(default_factory=Counter)
    images: int = 0
    known: dict[str, list[Tokens]] = field(default_factory=dict, repr=False)

    def note(self, lines: Iterable[Mapping[str, Any]], judge: str) -> None:
        """Learn from lines of verdicts.jsonl what a call of each kind takes."""
        for line in lines:
            tokens = line["tokens"]
            if line["judge"] == judge and not line["reused"] and None not in tokens:
                self.known.setdefault(line["kind"], []).append((tokens[0], tokens[1]))

    @property
    def tokens(self) -> Tokens | None:
        """In and out, of all calls."""
        if not self.calls or any(kind not in self.known for kind in self.calls):
            return None
        sums = [0.0, 0.0]
        for kind, number in self.calls.items():
            for i in (0, 1):
                sums[i] += number * sum(tokens[i] for tokens in self.known[kind]) / len(self.known[kind])
        return round(sums[0]), round(sums[1])

    def text(self, prices: Prices) -> str:
        """For people."""
        kinds = ", ".join(f"{number} of kind {kind}" for kind, number in sorted(self.calls.items()))
        said = f"{self.calls.total()} calls with {self.images} images" + (f" ({kinds})" if kinds else "")
        if not self.calls:
            return said
        if self.tokens is None:
            return f"{said}; tokens are not known before a call of each kind was made"
        said += f"; about {self.tokens[0]} + {self.tokens[1]} tokens, as calls so far took"
        return f"{said}; cost about {prices.of(self.tokens):.2f}" if prices else said
