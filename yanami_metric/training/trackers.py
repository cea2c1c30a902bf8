"""Where curves and pictures go: Trackio, Weights & Biases, TensorBoard behind one small protocol.

Each uses the run that the training has open already, if any, else opens one at the first log, on this machine:
Trackio without a Space, Weights & Biases in offline mode. Knows nothing of scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from yanami_dataset.errors import MissingExtraError, SpecError

if TYPE_CHECKING:
    from PIL.Image import Image

PROJECT = "yanami"


@runtime_checkable
class Tracker(Protocol):
    """Something that keeps numbers and pictures by step."""

    def log(self, scalars: Mapping[str, float], images: Mapping[str, Image], step: int) -> None:
        """Keep what belongs to one step; names are such as `yanami/gt/vr`."""
        ...


class Trackio:
    """Trackio, in the folder it keeps on this machine (`TRACKIO_DIR`).

    Args:
        project: of the run that is opened where none is.
        name: of that run, which goes on if it exists; None: a name of Trackio's.

    Raises:
        MissingExtraError: trackio isn't installed.
    """

    def __init__(self, project: str = PROJECT, name: str | None = None) -> None:
        _need("trackio")
        self._project, self._name = project, name

    def log(self, scalars: Mapping[str, float], images: Mapping[str, Image], step: int) -> None:
        """To the open run."""
        import trackio
        from trackio.context_vars import current_run

        run = current_run.get()
        if run is None:
            resume = "allow" if self._name else "never"
            quiet: dict[str, Any] = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
            run = trackio.init(self._project, self._name, resume=resume, **quiet)
        run.log({**scalars, **{name: trackio.Image(image) for name, image in images.items()}}, step=step)


class Wandb:
    """Weights & Biases; a run that it has to open itself is offline unless `mode` says otherwise.

    Steps are logged as `yanami/step`, which its curves are drawn over: a training that logs too has steps of its own.

    Args:
        project: of the run that is opened where none is.
        name: of that run.
        mode: online, offline or disabled.

    Raises:
        MissingExtraError: wandb isn't installed.
    """

    def __init__(self, project: str = PROJECT, name: str | None = None, mode: str = "offline") -> None:
        _need("wandb")
        self._open = {"project": project, "name": name, "mode": mode}
        self._known: Any = None

    def log(self, scalars: Mapping[str, float], images: Mapping[str, Image], step: int) -> None:
        """To the open run."""
        import wandb  # type: ignore[import-not-found]

        run = wandb.run if wandb.run is not None else wandb.init(**self._open)
        if run is not self._known:
            run.define_metric("yanami/step")
            run.define_metric("yanami/*", step_metric="yanami/step")
            self._known = run
        run.log({**scalars, **{name: wandb.Image(image) for name, image in images.items()}, "yanami/step": step})


class TensorBoard:
    """Event files for TensorBoard.

    Args:
        folder: where they go.

    Raises:
        MissingExtraError: tensorboard isn't installed.
    """

    def __init__(self, folder: str | Path = "tensorboard") -> None:
        _need("tensorboard")
        _need("torch")
        self._folder = str(folder)
        self._writer: Any = None

    def log(self, scalars: Mapping[str, float], images: Mapping[str, Image], step: int) -> None:
        """To a file, which is written at once."""
        import numpy as np
        from torch.utils.tensorboard import SummaryWriter

        if self._writer is None:
            made: Any = SummaryWriter
            self._writer = made(self._folder)
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, step)
        for name, image in images.items():
            self._writer.add_image(name, np.asarray(image), step, dataformats="HWC")
        self._writer.flush()


TRACKERS = ("trackio", "wandb", "tensorboard")


def open_trackers(
    which: str | Tracker | Sequence[str | Tracker],
    *,
    project: str = PROJECT,
    name: str | None = None,
    folder: str | Path = "tensorboard",
) -> list[Tracker]:
    """Trackers by name.

    Args:
        which: "auto" for those that are installed, "none", names with commas, a tracker, or a list of both.
        project: of Trackio and Weights & Biases.
        name: of the run there.
        folder: of TensorBoard.

    Raises:
        SpecError: an unknown name.
        MissingExtraError: one that is named isn't installed.

    >>> open_trackers("none")
    []
    """
    if which == "auto":
        which = [one for one in TRACKERS if find_spec(one)]
    if isinstance(which, str):
        which = [] if which == "none" else which.split(",")
    makers: dict[str, Any] = {
        "trackio": lambda: Trackio(project, name),
        "wandb": lambda: Wandb(project, name),
        "tensorboard": lambda: TensorBoard(folder),
    }
    found: list[Tracker] = []
    for one in which if isinstance(which, Sequence) else [which]:
        if not isinstance(one, str) and isinstance(one, Tracker):
            found.append(one)
        elif isinstance(one, str) and one in makers:
            found.append(makers[one]())
        else:
            raise SpecError(f"trackers: expected auto, none, {', '.join(TRACKERS)} or objects with log(), got {one!r}")
    return found


def known(scalars: Mapping[str, float | None]) -> dict[str, float]:
    """Those that have a value: what is undefined is not logged, neither as 0 nor as NaN.

    >>> known({"vr": 50.0, "dsu": None})
    {'vr': 50.0}
    """
    return {name: float(value) for name, value in scalars.items() if value is not None}


def _need(library: str) -> None:
    if find_spec(library) is None:
        raise MissingExtraError(f"this tracker needs {library}: pip install {library}")
