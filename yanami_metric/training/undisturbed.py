"""Leaving a training as it was: modes of modules, random numbers and schedulers. Knows torch, nothing of yanami."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def undisturbed(model: Any) -> Iterator[None]:
    """Within, torch modules are in eval mode and compute no gradients; afterwards all is as before.

    What is put back: the mode of every module, the state of Python's, numpy's and torch's random numbers (of the CPU
    and all CUDA devices), and the scheduler of a pipeline of diffusers, which counts its steps.

    Args:
        model: a torch module, a pipeline of diffusers or transformers, a tuple of such, or an object that has them as
            attributes; modules that it keeps deeper stay in the mode they are in.
    """
    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        if "numpy" in sys.modules:
            import numpy as np

            stack.callback(np.random.set_state, np.random.get_state())
        if "torch" in sys.modules:
            stack.enter_context(_torch_undisturbed(model))
        yield


@contextmanager
def _torch_undisturbed(model: Any) -> Iterator[None]:
    import torch

    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    numbers = torch.get_rng_state(), torch.cuda.get_rng_state_all() if on_gpu else []
    modes = {part: part.training for module in modules_of(model) for part in module.modules()}
    scheduler = getattr(model, "scheduler", None) if hasattr(model, "components") else None
    try:
        for part in modes:
            part.training = False
        if scheduler is not None:
            model.scheduler = copy.deepcopy(scheduler)
        with torch.no_grad():
            yield
    finally:
        for part, training in modes.items():
            part.training = training
        if scheduler is not None:
            model.scheduler = scheduler
        torch.set_rng_state(numbers[0])
        if on_gpu:
            torch.cuda.set_rng_state_all(numbers[1])


def modules_of(model: Any) -> list[Any]:
    """The torch modules of a model of whatever kind, outermost ones only."""
    import torch

    if isinstance(model, torch.nn.Module):
        return [model]
    if isinstance(model, tuple):
        parts = list(model)
    else:
        components = getattr(model, "components", None)  # of diffusers, where attributes are looked up in it
        parts = [*components.values()] if isinstance(components, dict) else [*getattr(model, "__dict__", {}).values()]
    return [part for part in parts if isinstance(part, torch.nn.Module)]
