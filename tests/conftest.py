"""Every test run keeps to a folder of its own: no cache or module of the user's is read or written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub import Hub

# before anything imports datasets, evaluate or huggingface_hub, which read these once
_HOME = Path(tempfile.mkdtemp(prefix="yanami-tests-"))
os.environ |= {
    "HF_HOME": str(_HOME / "huggingface"),
    "HF_MODULES_CACHE": str(_HOME / "huggingface" / "modules"),
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "YANAMI_CACHE": str(_HOME / "yanami"),
}


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A Hub on the loopback interface; tests/hub_support.py has what a machine does that knows only this one."""
    with Hub() as running:
        yield running
