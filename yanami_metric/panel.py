"""Which judges are asked and how: opened from their specs, found usable before a run, noted in its folder.

Knows judges and the run folder, nothing of models and scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from yanami_dataset.errors import SpecError
from yanami_metric.asking import Judges, Rules
from yanami_metric.cache import Cache
from yanami_metric.costs import Budget, Estimate, Prices
from yanami_metric.data import Data
from yanami_metric.judges import PLAIN, check_judge, close, open_judge
from yanami_metric.judging import Bench
from yanami_metric.loop import Loop
from yanami_metric.records import STATUSES, Judge
from yanami_metric.run_folder import RunFolder
from yanami_metric.runs import Progress


@dataclass(frozen=True)
class Judging:
    """How judges are asked.

    Args:
        rules: context, prompts, samples, checks per call.
        concurrency: calls in flight.
        retry: final statuses that are asked again, e.g. ("refused",).
        cache: a folder of verdicts that runs share.
        max_failures: stop after so many failed calls.
        options: of the judges that spec strings name, see `judges.open_judge`; `pixel` and `exact` take none.
        wait: seconds to wait for a judge's server that is still loading.
        local_only: refuse judges behind addresses that are neither loopback nor private.
        prices: of tokens.
        max_cost: stop when so much was spent on all that was judged with this object.

    Raises:
        SpecError: a value that makes no sense.
    """

    rules: Rules = field(default_factory=Rules)
    concurrency: int = 8
    retry: tuple[str, ...] = ()
    cache: str | Path | None = None
    max_failures: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    wait: float = 0.0
    local_only: bool = False
    prices: Prices = field(default_factory=Prices)
    max_cost: float | None = None
    budget: Budget = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise SpecError(f"concurrency: expected 1 or more, got {self.concurrency}")
        if unknown := set(self.retry) - set(STATUSES):
            raise SpecError(f"retry: expected statuses among {', '.join(STATUSES)}, got {', '.join(sorted(unknown))}")
        object.__setattr__(self, "budget", Budget(self.prices, self.max_cost))

    def open(self, images: str | Judge, answers: str | Judge) -> Judges:
        """The judges of images and of answers; where both are the same spec, the same object.

        Raises:
            SpecError: no such judge, options that none takes, or an address that isn't local if it must be.
        """
        takes = [one for one in (images, answers) if isinstance(one, str) and one not in PLAIN]
        if self.options and not takes:
            raise SpecError(f"options of judges: {', '.join(self.options)}, and no judge that takes any")
        first = self._opened(images)
        by = Judges(first, first if isinstance(images, str) and answers == images else self._opened(answers))
        if self.local_only:
            for judge in _distinct(by):
                getattr(judge, "keep_local", lambda: None)()
        return by

    def _opened(self, judge: str | Judge) -> Judge:
        if isinstance(judge, str):
            return open_judge(judge, {} if judge in PLAIN else self.options)
        return check_judge(judge, type(judge).__name__)

    def check(self, judges: Sequence[Judges], progress: Progress, needed: Callable[[], bool] = lambda: True) -> None:
        """Find out before a run whether its judges can be asked.

        Args:
            judges: of the run.
            progress: told what couldn't be found out.
            needed: whether any of them will be; only asked where there is something to find out.

        Raises:
            ModelError: one can't.
        """
        distinct = {id(judge): judge for by in judges for judge in _distinct(by)}.values()
        checks: list[Any] = [judge.check for judge in distinct if hasattr(judge, "check")]
        for check in checks if checks and needed() else ():
            if note := check(self.wait):
                progress.note(note)

    def is_needed(self, folder: RunFolder, by: Judges, data: Data, tracks: Sequence[str]) -> bool:
        """Whether anything is still to be asked of these judges."""
        return next(self._asking(folder, by).todo(data, tracks), None) is not None

    def bench(self, folder: RunFolder, by: Judges, data: Data, tracks: int, progress: Progress, loop: Loop) -> Bench:
        """A bench over an open run folder, which notes who judges; the judges are closed when the loop ends."""
        folder.add_judges(entry(by, self.rules))
        for kind, prompt in self.rules.prompts.items():
            if any(judge.reads_prompt and kind in judge.kinds for judge in _distinct(by)):
                folder.keep_prompt(kind, prompt.hash, prompt.text)
        what = f"judge {by.name}"
        progress.start(what, tracks * sum(len(d.questions) + 2 * len(d.slots) for d in data))
        for judge in _distinct(by):
            loop.at_end(partial(close, judge))

        def tell(line: dict[str, Any], fresh: bool) -> None:
            progress.step(what, line["items"][0]["status"], fresh=fresh)
            if fresh and any(self.budget.tokens):
                progress.spent(what, self.budget.tokens, self.budget.spent)

        stops = self.max_failures, tell, self.budget
        return Bench(folder, by, self.rules, self.concurrency, self.retry, self._shared(), *stops)

    def estimate(self, folder: RunFolder, by: Judges, data: Data, tracks: Sequence[str]) -> Estimate:
        """What is still to be asked of these judges; asks nobody."""
        found = Estimate()
        for dialogue in data:
            lines = folder.verdicts.of(dialogue.id)
            for judge in _distinct(by):
                found.note(lines, judge.name)
        for call in self._asking(folder, by).todo(data, tracks):
            found.calls[call.kind] += 1
            found.images += len(call.images) if call.messages else call.candidate is not None
        return found

    def _asking(self, folder: RunFolder, by: Judges) -> Bench:
        return Bench(folder, by, self.rules, retry=self.retry, cache=self._shared())

    def _shared(self) -> Cache | None:
        return Cache(Path(self.cache)) if self.cache is not None else None


def _distinct(by: Judges) -> Iterator[Judge]:
    yield by.images
    if by.answers is not by.images:
        yield by.answers


def entry(by: Judges, rules: Rules) -> dict[str, Any]:
    """Who judges and how, as run.json has it."""
    return {
        "images": {"name": by.images.name, "fingerprint": by.images.fingerprint},
        "answers": {"name": by.answers.name, "fingerprint": by.answers.fingerprint},
        "rules": rules.described(),
    }
