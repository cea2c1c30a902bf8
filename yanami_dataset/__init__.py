"""yanami_dataset: what a dialogue is, and every way in and out of storage.

from yanami_dataset import load_bench

bench = load_bench("mini")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yanami_dataset.loading import load_bench

__version__ = "0.1.0"
__all__ = ["load_bench"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # imported when it is first used, so that importing the package costs nothing
        return getattr(import_module("yanami_dataset.loading"), name)
    raise AttributeError(f"module 'yanami_dataset' has no attribute {name!r}")
