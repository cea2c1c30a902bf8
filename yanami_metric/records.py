"""The nouns that the stages share: Request -> Output -> JudgeCall -> Reply -> Verdict.

A stage knows these and the run folder (`run_folder.py`), never another stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from yanami_dataset.schema import Message, Slot

if TYPE_CHECKING:
    from PIL.Image import Image

HISTORIES = ("gt", "self", "last", "none")
PLACEMENTS = ("interleaved", "front", "concatenate", "text_only")

# What became of an output. "ok" goes to a judge; the others are final or are tried again (RETRIED).
OUTPUT_STATUSES = ("ok", "missing_output", "model_refused", "generation_error", "unsupported")
# What became of a judged item: exactly one of these.
STATUSES = (
    "scored",
    "missing_output",
    "model_refused",
    "generation_error",
    "unsupported",
    "unparsed",
    "refused",
    "transport_error",
    "bad_image",
    "not_judgeable",
)
# The model's own doing counts as wrong; everything else that isn't scored counts as nothing.
COUNTS_AS_WRONG = ("missing_output", "model_refused")
RETRIED = ("generation_error", "unparsed", "transport_error", "bad_image")

JUDGE_FAULTS = ("refused", "transport_error", "bad_image", "not_judgeable")  # what a judge may raise

CallKind = Literal["answer", "checks", "quality"]


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image by the hash of its encoded bytes, readable on demand; two refs of equal content are equal.

    `labels` are the numbers under which a request shows it: one for an image, several for a grid.
    """

    sha256: str
    width: int
    height: int
    read: Callable[[], bytes] = field(compare=False, repr=False)
    labels: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is given: rendered messages, images, and what is expected of it.

    `Part.index` of an image part points into `images`. `expects` is "images" (`count` of them, `seeds` one for each,
    `size` width x height in pixels where known) or "text" (the answer to a question). `key` is a hash over model
    identity, content and seeds. `dialogue`, `turn` and `question` say where it comes from; a model must not need them.
    """

    key: str
    dialogue: str
    turn: int
    messages: tuple[Message, ...]
    images: tuple[ImageRef, ...]
    expects: Literal["images", "text"]
    count: int
    seeds: tuple[int, ...]
    size: tuple[int, int] | None = None
    question: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What a model gave for one request.

    `images` are encoded bytes or PIL images in slot order, None for one that is missing; `text` is the answer and
    `thinking` what came before it, never judged. A failure has a `status` of OUTPUT_STATUSES and a `reason`.
    """

    images: Sequence[bytes | Image | None] = ()
    text: str | None = None
    thinking: str | None = None
    status: str = "ok"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Caps:
    """What a model can do; checked before a run starts. None means no limit that is known.

    `placement` is where it wants images if the user doesn't say (one of PLACEMENTS), `drawing_placement` where it wants
    them when it is to draw, if that differs. `honours_images` is False for a model that draws without looking at input
    images. `interleaved`, `multi_turn`, `min_side` (pixels) and `max_prompt_tokens` (its own tokens) are told in
    run.json: what follows from them an adapter sees to itself, or says by its method `unsupported`.
    """

    outputs: frozenset[str] = frozenset({"text", "images"})
    placement: str = "interleaved"
    drawing_placement: str | None = None
    interleaved: bool = True
    multi_turn: bool = True
    min_images: int = 0
    max_images: int | None = None
    min_side: int | None = None
    max_prompt_tokens: int | None = None
    max_batch: int = 1
    honours_images: bool = True
    seeded: bool = True


@runtime_checkable
class Model(Protocol):
    """A model or an adapter around one. It sees rendered requests only.

    `identity` says what the weights are; a path alone is none, checkpoints reuse paths. Three methods are optional:
    `unsupported(request) -> str` says why it can't take a request ("" if it can; asked before a run starts),
    `prepare(data, history) -> Model` looks at the dialogues first, `close()` is called after a rollout and frees what
    it holds (it may be asked again).
    """

    caps: Caps
    identity: str

    def generate(self, requests: Sequence[Request]) -> Sequence[Output]:
        """One output per request, in order; a failure is an output with a status."""
        ...


@dataclass(frozen=True, slots=True)
class JudgeItem:
    """One thing to be judged in a call: a check (criterion and, in the mini bench, probe), a question or a quality."""

    id: str
    text: str = ""
    probe: str | None = None


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """What a judge is asked, all items about one output.

    kind "checks": `items` are the checks on `candidate`. kind "quality": one item, how good `candidate` looks.
    kind "answer": one item, is `answer` to `items[0].text` right by `reference` (`choices` may be empty).
    For a judge that reads a prompt: `rubric` is the system message, `messages` with `images` what is judged, `schema`
    the JSON schema of the reply, and `fault` what was wrong with the `last` reply, if this is the one repeat request.
    """

    kind: CallKind
    items: tuple[JudgeItem, ...]
    candidate: ImageRef | None = None
    answer: str | None = None
    reference: str | None = None
    choices: tuple[str, ...] = ()
    rubric: str = ""
    messages: tuple[Message, ...] = ()
    images: tuple[ImageRef, ...] = ()
    schema: Mapping[str, Any] | None = field(default=None, compare=False)
    last: str = ""
    fault: str = ""
    sample: int = 0


def track(history: str, sample: int = 0) -> str:
    """The name that the outputs of one history mode and one generation are filed under.

    >>> track("gt"), track("gt", 1)
    ('gt', 'gt-g1')
    """
    return history if sample == 0 else f"{history}-g{sample}"


def quality_id(slot: Slot) -> str:
    """The item id of the quality of the image drawn for a slot.

    >>> quality_id(Slot(turn=2, ordinal=0, index=None))
    't2-s0'
    """
    return f"t{slot.turn}-s{slot.ordinal}"


@dataclass(frozen=True, slots=True)
class Reply:
    """A judge's raw reply; `replies` states the JSON that it should hold.

    `note` says what was done to get it that could matter, e.g. that images were made smaller.
    """

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    note: str = ""


class JudgeError(Exception):
    """Why there is no reply: `status` is one of JUDGE_FAULTS, `final` says that asking again is no use.

    Raises:
        ValueError: another status. Some of those count as wrong, and a judge's fault must never become a number.
    """

    def __init__(self, status: str, reason: str, *, final: bool = False) -> None:
        if status not in JUDGE_FAULTS:
            raise ValueError(f"expected a status of {', '.join(JUDGE_FAULTS)} from a judge, got {status!r}: {reason}")
        super().__init__(reason)
        self.status, self.final = status, final


@runtime_checkable
class Judge(Protocol):
    """A backend that answers; prompts, parsing, retries and caching are not its business.

    `name` is its spec string. `fingerprint` holds all that may change an answer (model name, parameters, version).
    `kinds` are the call kinds it can be asked; `reads_prompt` says that calls must hold a rendered prompt, and that a
    reply that can't be used is worth one repeat request. What goes wrong it raises as JudgeError.

    Four members are optional: `check(wait) -> str` says before a run what couldn't be found out, raises ModelError if
    the judge can't be used, and waits so many seconds for one that isn't ready; `keep_local()` raises SpecError if
    images would leave this machine's network; `on_pressure`, set by who asks, is to be called from within `judge` each
    time a server has too much to do; `aclose()`, a coroutine, or `close()` frees what it holds (it may be asked again).
    """

    name: str
    kinds: frozenset[str]
    reads_prompt: bool

    @property
    def fingerprint(self) -> dict[str, Any]:
        """JSON-able, without secrets or addresses."""
        ...

    async def judge(self, call: JudgeCall) -> Reply:
        """Answer one call."""
        ...
