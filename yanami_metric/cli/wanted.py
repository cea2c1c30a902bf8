"""What a command line asks for, turned into the arguments of `api.rollout` and `api.evaluate`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yanami_metric.cli.console import rank_of_launcher

if TYPE_CHECKING:
    from yanami_metric.data import Selection
    from yanami_metric.planning import Plan


@dataclass(frozen=True)
class Given:
    """The conditions of a rollout as options give them; None where they don't."""

    history: str
    placement: str | None
    max_images: int | None
    seed: int
    generations: int


@dataclass(frozen=True)
class Wanted:
    """Which dialogues, and where runs go."""

    data: str
    selection: Selection
    out: Path | None

    def arguments(
        self,
        model: str | None,
        preset: str | None,
        options: dict[str, Any],
        given: Given,
        *,
        alone: bool,
        local: bool = False,
    ) -> dict[str, Any]:
        """The arguments for one model; a preset fills in what the options leave open.

        `alone`: it is the only one. `local`: one behind an address that is neither loopback nor private is refused.
        """
        from yanami_dataset.errors import SpecError
        from yanami_metric.data import open_data
        from yanami_metric.models import Opened, open_model

        spec, asked = model, given.placement
        if preset is not None:
            spec, options, given = _with_preset(preset, model, options, given)
        if spec is None:
            raise SpecError("expected --model, or a --preset that names one")
        data = open_data(self.data, self.selection)
        opened = Opened(open_model(spec, data, options), spec, options)
        if local:
            getattr(opened.model, "keep_local", lambda: None)()
        return {
            "dialogues": data,
            "model": opened,
            "history": given.history,
            "placement": given.placement,
            "max_images": given.max_images,
            "seed": given.seed,
            "generations": given.generations,
            "out": self._folder(data, preset or spec, asked, alone=alone),
        }

    def _folder(self, data: Any, name: str, placement: str | None, *, alone: bool) -> Path:
        from yanami_metric.runs import default_out

        usual = default_out(data, name, placement)
        if self.out is None:
            return usual
        folder = self.out if alone else self.out / usual.name
        rank = rank_of_launcher()
        # under a launcher every process has the same command line, and needs a folder of its own
        return folder if rank is None else folder.with_name(f"{folder.name}-shard{rank[0]}of{rank[1]}")


def _with_preset(
    name: str, model: str | None, options: dict[str, Any], given: Given
) -> tuple[str | None, dict[str, Any], Given]:
    from yanami_metric.presets import load_preset

    preset = load_preset(name)
    filled = replace(
        given,
        placement=given.placement or preset.placement,
        max_images=given.max_images if given.max_images is not None else preset.max_images,
    )
    loading = {f"load.{key}": value for key, value in preset.load.items()}
    return model or preset.spec, {**loading, **preset.call, **options}, filled


def model_options(pairs: Iterable[str], tag: str | None, text_to_image: str | None) -> dict[str, Any]:
    """The options of a model: NAME=VALUE pairs, and those with a name of their own."""
    named = {"tag": tag, "text_to_image": text_to_image}
    given = {name: value for name, value in named.items() if value is not None}
    return named_values("--set", pairs) | given


def named_values(option: str, pairs: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE pairs as a dictionary, a value read as JSON where it is JSON, else as text.

    Raises:
        SpecError: a pair that is none, given by `option`.

    >>> named_values("--set", ["steps=4", "mode=fast"])
    {'steps': 4, 'mode': 'fast'}
    """
    from yanami_dataset.errors import SpecError

    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise SpecError(f"{option}: expected NAME=VALUE, got {pair!r}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def census_table(plan: Plan, price_image: float, price_answer: float) -> str:
    """What a run will ask for, as text."""
    from yanami_metric.planning import take_census
    from yanami_metric.run_folder import RunFolder

    if (plan.path / "run.json").is_file():
        with RunFolder(plan.path, plan.described) as folder:
            census = take_census(plan, folder)
    else:
        census = take_census(plan)
    lines = [f"{plan.path}: {len(plan.data)} dialogues, {plan.settings[0].placement}, {plan.model.identity}"]
    for history in plan.conditions.histories:
        lines.append(
            f"  {history}: {census.draws[history]} drawing calls for {census.images[history]} images, "
            f"{census.answers[history]} answers; {census.done[history]} outputs exist already"
        )
    lines += [f"  {note}" for note in census.notes()]
    lines += [f"    {example}" for example in census.examples]
    if price_image or price_answer:
        lines.append(f"  price, if nothing exists already: {census.cost(price_image, price_answer):.2f}")
    return "\n".join(lines)
