"""Every error yanami raises on purpose.

YanamiError
├── DataError            data that can't be used; always names what and where
│   ├── InvariantError   a dialogue breaks a rule of the schema
│   ├── ImageError       an image that can't be read safely
│   └── SourceError      a file to import is not what its format says
├── SpecError            a spec string, option or combination of options that makes no sense
│   └── MissingExtraError  a library of an optional extra isn't installed
├── HistoryError         the history mode can't be used with these dialogues
├── ModelError           a model or a replayed folder can't be used with these dialogues
├── HubError             the Hub couldn't be reached, or said no
├── RunFolderError       a run folder holds something else than asked for
└── NotAlikeError        runs to compare were not measured alike (`yanami_metric.alike`)

Expected faults of a model or a judge during a run are no exceptions but statuses (`yanami_metric.records`).
"""

from __future__ import annotations

__all__ = [
    "DataError",
    "HistoryError",
    "HubError",
    "ImageError",
    "InvariantError",
    "MissingExtraError",
    "ModelError",
    "RunFolderError",
    "SourceError",
    "SpecError",
    "YanamiError",
]


class YanamiError(Exception):
    """Base of all errors that yanami raises on purpose."""


class DataError(YanamiError, ValueError):
    """Data that can't be used."""


class InvariantError(DataError):
    """A dialogue breaks one or more rules of the schema; `problems` lists each of them."""

    def __init__(self, dialogue: str, problems: list[str]) -> None:
        self.dialogue = dialogue
        self.problems = problems
        super().__init__(f"dialogue {dialogue!r}: " + "; ".join(problems))


class ImageError(DataError):
    """An image that can't be decoded, or not safely."""


class SourceError(DataError):
    """A source file is not what its format says; the message names file and line."""


class SpecError(YanamiError, ValueError):
    """A spec string or an option makes no sense."""


class MissingExtraError(SpecError):
    """A library that only an optional extra brings is missing; the message gives the command that installs it."""


class HistoryError(YanamiError, ValueError):
    """The history mode can't be used with a dialogue."""


class ModelError(YanamiError, ValueError):
    """A model can't be used with the dialogues, known before anything runs."""


class RunFolderError(YanamiError, ValueError):
    """A run folder holds another run, or isn't one."""


class HubError(YanamiError, RuntimeError):
    """The Hub couldn't be reached, or refused; the message says what it said and what to do."""
