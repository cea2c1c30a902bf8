"""The mini bench as the metric uses it: drawn once, every target accepted by the pixel judge, and kept.

Here because the generator, which is data, must not know the judge.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where yanami keeps what it made: $YANAMI_CACHE, else ~/.cache/yanami."""
    return Path(os.environ.get("YANAMI_CACHE") or Path.home() / ".cache" / "yanami")
