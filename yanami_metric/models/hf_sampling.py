"""How the next token is chosen: the most likely one, or drawn with a generator of each sample's own.

transformers draws all rows of a batch from one global generator, so that a row depends on its neighbours. Here every
row has its own, seeded by its request: it draws the same alone, in any order and in any batch. The model's `generate`
runs without sampling, and a last step leaves it only the token drawn. Knows logits, no models and no requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from yanami_dataset.errors import ModelError, SpecError

if TYPE_CHECKING:
    from torch import LongTensor, Tensor

_ELSEWHERE = ("typical_p", "epsilon_cutoff", "eta_cutoff", "top_h", "penalty_alpha")
_ONE = ("num_return_sequences",)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw; all as `generate` of transformers names it. None: as the model's generation_config says."""

    do_sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def filled(self, config: Any) -> Sampling:
        """With the model's own values, or those of transformers (top_k 50), where none are given."""
        own = {name: getattr(config, name, None) for name in ("temperature", "top_k", "top_p", "min_p")}
        given = {name: getattr(self, name) for name in own if getattr(self, name) is not None}
        set_there = {name: value for name, value in own.items() if value is not None}
        return Sampling(self.do_sample, **{"temperature": 1.0, "top_k": 50, "top_p": 1.0, **set_there, **given})


def split_sampling(options: Mapping[str, Any], prefix: str = "") -> tuple[Sampling, dict[str, Any]]:
    """The part of `generate` options that says how to draw, and the others.

    Raises:
        SpecError: options that drawing with a generator for each sample can't honour.

    >>> split_sampling({"do_sample": True, "top_p": 0.9, "max_new_tokens": 8})[1]
    {'max_new_tokens': 8}
    """
    names = [field.name for field in fields(Sampling)]
    if unknown := [name for name in _ELSEWHERE if name in options]:
        raise SpecError(f"{prefix}{unknown[0]}: expected {', '.join(names)} for sampling, got {unknown[0]}")
    if bad := [name for name in _ONE if options.get(name, 1) != 1]:
        raise SpecError(f"{prefix}{bad[0]}: expected 1, got {options[bad[0]]}; --generations makes several")
    chosen = Sampling(**{name: options[name] for name in names if name in options})
    if not chosen.do_sample and (idle := [name for name in names[1:] if name in options]):
        raise SpecError(f"{prefix}{idle[0]}: has an effect only with {prefix}do_sample=true")
    if chosen.do_sample and options.get("num_beams", 1) != 1:
        raise SpecError(f"{prefix}num_beams: expected 1 with {prefix}do_sample, got {options['num_beams']}")
    return chosen, {name: value for name, value in options.items() if name not in names}


class Steps:
    """The steps after the model's logits for one batch, as `logits_processor` of `generate` takes them.

    Args:
        seeds: one for each row.
        sampling: filled.
        first: steps that come before, e.g. guidance.
    """

    def __init__(self, seeds: Sequence[int], sampling: Sampling, first: Sequence[Any] = ()) -> None:
        from transformers import LogitsProcessorList

        self._sampling = sampling
        self._finite = _Finite(len(seeds))
        self.processors = LogitsProcessorList([*first, self._finite])
        if sampling.do_sample:
            self.processors += [*_warpers(sampling), _Drawn(seeds)]

    def faulty(self) -> list[bool]:
        """For each row, whether the model gave NaN anywhere: its tokens mean nothing.

        Raises:
            ModelError: the model's `generate` took none of the steps, so nothing was sampled.
        """
        if self._sampling.do_sample and not self._finite.taken:
            raise ModelError("this model's generate() ignores logits_processor, so that it can't sample by seeds")
        return self._finite.faulty()


class _Finite:
    """Notes the rows whose scores are NaN, without waiting for the device at each step."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._bad: Tensor | None = None

    def __call__(self, input_ids: LongTensor, scores: Tensor) -> Tensor:
        bad = scores.isnan().any(dim=-1).reshape(self._rows, -1).any(dim=-1)  # several rows a sample with beams
        self._bad = bad if self._bad is None else self._bad | bad
        return scores

    @property
    def taken(self) -> bool:
        return self._bad is not None

    def faulty(self) -> list[bool]:
        return [False] * self._rows if self._bad is None else self._bad.tolist()


class _Drawn:
    """Leaves each row the one token that its generator draws: one uniform number a step, inverted by the sums."""

    def __init__(self, seeds: Sequence[int]) -> None:
        import torch

        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: LongTensor, scores: Tensor) -> Tensor:
        import torch

        precise = torch.float32 if scores.device.type == "mps" else torch.float64
        sums = scores.to(precise).softmax(dim=-1).cumsum(dim=-1)
        drawn = torch.cat([torch.rand(1, generator=each, dtype=torch.float64) for each in self._generators])
        level = drawn.to(scores.device, precise).unsqueeze(-1) * sums[:, -1:]
        token = torch.searchsorted(sums, level, right=True).clamp_(max=scores.shape[-1] - 1)
        return torch.full_like(scores, float("-inf")).scatter_(-1, token, 0.0)


def _warpers(sampling: Sampling) -> list[Any]:
    from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    warpers: list[Any] = []
    if sampling.temperature not in (None, 1.0):
        warpers.append(TemperatureLogitsWarper(float(sampling.temperature)))
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(top_k=sampling.top_k))
    if sampling.top_p is not None and sampling.top_p < 1.0:
        warpers.append(TopPLogitsWarper(top_p=sampling.top_p))
    if sampling.min_p:
        warpers.append(MinPLogitsWarper(min_p=sampling.min_p))
    return warpers
