"""A real browser for tests of pages: Chromium without a window, and what a page did while one looked at it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

_CHROMIUM = Path("/usr/bin/chromium")
_QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium; where there is none, the test is skipped, but fails where CI is set."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        missing("playwright isn't installed")
    with sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(
                executable_path=str(_CHROMIUM) if _CHROMIUM.exists() else None,
                args=["--no-sandbox", "--disable-gpu", *_QUIET],
            )
        except Error as error:
            missing(f"no Chromium: {error}")
        yield opened
        opened.close()


def missing(why: str) -> NoReturn:
    """Skip, or fail where CI is set."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@dataclass
class Looked:
    """An opened page, and what it asked for and complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def looking(
    browser: Any, file: Path, fragment: str = "", *, width: int = 1280, scheme: str = "light", scripts: bool = True
) -> Iterator[Looked]:
    """Open a file as a user would; nothing may go wrong in its console, nor be asked of anything but files."""
    size = {"width": width, "height": 900}
    with browser.new_context(color_scheme=scheme, viewport=size, java_script_enabled=scripts) as context:
        looked = Looked(context.new_page())
        looked.page.on("request", lambda request: looked.requests.append(request.url))
        looked.page.on("console", lambda message: looked.complaints.append(message.text))
        looked.page.on("pageerror", lambda error: looked.complaints.append(str(error)))
        looked.page.goto(file.as_uri() + fragment)
        yield looked
    assert looked.complaints == []
    beyond = [url for url in looked.requests if not url.startswith(("data:", file.parent.as_uri() + "/"))]
    assert beyond == []


def soon(condition: Callable[[], object], within: float = 10.0) -> bool:
    """Whether a condition comes true: a page answers keys and clicks in its own time."""
    stop = time.monotonic() + within
    while not condition():
        if time.monotonic() > stop:
            return False
        time.sleep(0.02)
    return True
