"""Dialogues as rows of `datasets` and Parquet, both ways and without loss.

The one place that names the columns. Only `features()` imports `datasets`, when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from yanami_dataset import schema
from yanami_dataset.errors import DataError
from yanami_dataset.schema import Check, Dialogue, ImageInfo, Message, Part, Question, StateOp, Turn

if TYPE_CHECKING:
    from datasets import Features

COLUMNS = (
    "id",
    "scenario",
    "images",
    "image_info",
    "messages",
    "turns",
    "questions",
    "checks",
    "source",
    "extra",
)

LABELS = {
    "scenario": schema.SCENARIOS,
    "image_info.role": schema.IMAGE_ROLES,
    "turns.capabilities": schema.CAPABILITIES,
    "turns.state.op": schema.STATE_OPS,
    "questions.dimension": schema.DIMENSIONS,
    "checks.kind": schema.CHECK_KINDS,
    "checks.capability": schema.CAPABILITIES,
}
"""The names behind the integers of every ClassLabel, by dotted column."""

_NUMBERS = {path: {name: number for number, name in enumerate(names)} for path, names in LABELS.items()}


def features() -> Features:
    """The columns of a row as `datasets` types; images are embedded and decode to PIL images.

    >>> list(features()) == list(COLUMNS)
    True
    """
    from datasets import ClassLabel, Features, Image, List, Value

    label = {path: ClassLabel(names=list(names)) for path, names in LABELS.items()}
    text, number = Value("string"), Value("int32")
    info = {"role": label["image_info.role"], "turn": number, "sha256": text, "width": number, "height": number}
    part = {"type": text, "text": text, "index": number}
    state = {"op": label["turns.state.op"], "key": text, "fact": text}
    question = {"id": text, "dimension": label["questions.dimension"], "turn": number, "question": text}
    check = {"id": text, "turn": number, "slot": number, "criterion": text, "kind": label["checks.kind"]}
    return Features(
        {
            "id": text,
            "scenario": label["scenario"],
            "images": List(Image()),
            "image_info": List({**info, "source": text, "license": text}),
            "messages": List({"role": text, "content": List(part)}),
            "turns": List({"capabilities": List(label["turns.capabilities"]), "state": List(state)}),
            "questions": List({**question, "answer": text, "choices": List(text), "images": List(number)}),
            "checks": List({**check, "capability": label["checks.capability"], "probe": text}),
            "source": text,
            "extra": text,
        }
    )


def to_row(dialogue: Dialogue) -> dict[str, Any]:
    """The dialogue as a row of `features()`: plain lists and dicts, labels as integers, images as `{"bytes", "path"}`.

    Raises:
        KeyError: a label that is none; `schema.validate` says which.

    >>> row = to_row(Dialogue("d1", "editing", (), ()))
    >>> row["scenario"], from_row(row).scenario
    (1, 'editing')
    """
    return {
        "id": dialogue.id,
        "scenario": _NUMBERS["scenario"][dialogue.scenario],
        "images": [{"bytes": bytes(data), "path": None} for data in dialogue.images],
        "image_info": [_info_row(info) for info in dialogue.image_info],
        "messages": [_message_row(message) for message in dialogue.messages],
        "turns": [_turn_row(turn) for turn in dialogue.turns],
        "questions": [_question_row(question) for question in dialogue.questions],
        "checks": [_check_row(check) for check in dialogue.checks],
        "source": dialogue.source,
        "extra": dialogue.extra,
    }


def from_row(row: Mapping[str, Any], images: Sequence[bytes] | None = None) -> Dialogue:
    """The dialogue of a row: labels as integers or names, other columns ignored, nothing validated.

    `images` takes the place of the row's images (to read them lazily). Without it they must be undecoded:
    a decoded image has lost its bytes, and with them its hash.

    Raises:
        DataError: a column is missing or holds something else than `features()` says.
    """
    try:
        return Dialogue(
            id=row["id"],
            scenario=_name("scenario", row["scenario"]),
            messages=tuple(map(_message, row["messages"])),
            turns=tuple(map(_turn, row["turns"])),
            images=_pool(row["images"]) if images is None else images,
            image_info=tuple(map(_info, row["image_info"])),
            questions=tuple(map(_question, row["questions"])),
            checks=tuple(map(_check, row["checks"])),
            source=row["source"] or "",
            extra=row["extra"] or "{}",
        )
    except KeyError as error:
        raise DataError(f"row {row.get('id')!r}: expected the column or field {error}, got none") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise DataError(f"row {row.get('id')!r}: expected the types of yanami's features, got {error}") from error


def _name(path: str, value: int | str) -> str:
    if isinstance(value, str):
        return value
    names = LABELS[path]
    if not 0 <= value < len(names):
        raise ValueError(f"{value} for {path} (0 to {len(names) - 1})")
    return names[value]


def _pool(values: Sequence[Any]) -> tuple[bytes, ...]:
    return tuple(_encoded(i, value) for i, value in enumerate(values))


def _encoded(i: int, value: Any) -> bytes:
    data = value.get("bytes") if isinstance(value, Mapping) else value
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    if isinstance(value, Mapping):
        raise ValueError(f"images[{i}] without bytes (path {value.get('path')!r}): embed the images in the data")
    raise ValueError(
        f"images[{i}] as {type(value).__name__}, expected encoded bytes: load the rows undecoded, "
        'dataset.cast_column("images", List(Image(decode=False))), or stream.decode(False)'
    )


def _info_row(info: ImageInfo) -> dict[str, Any]:
    return {
        "role": _NUMBERS["image_info.role"][info.role],
        "turn": info.turn,
        "sha256": info.sha256,
        "width": info.width,
        "height": info.height,
        "source": info.source,
        "license": info.license,
    }


def _info(row: Mapping[str, Any]) -> ImageInfo:
    return ImageInfo(
        _name("image_info.role", row["role"]),
        row["turn"],
        row["sha256"],
        row["width"],
        row["height"],
        row["source"] or "",
        row["license"] or "",
    )


def _message_row(message: Message) -> dict[str, Any]:
    content = [{"type": part.type, "text": part.text, "index": part.index} for part in message.content]
    return {"role": message.role, "content": content}


def _message(row: Mapping[str, Any]) -> Message:
    return Message(row["role"], tuple([Part(part["type"], part["text"], part["index"]) for part in row["content"]]))


def _turn_row(turn: Turn) -> dict[str, Any]:
    ops, capabilities = _NUMBERS["turns.state.op"], _NUMBERS["turns.capabilities"]
    return {
        "capabilities": [capabilities[name] for name in turn.capabilities],
        "state": [{"op": ops[op.op], "key": op.key, "fact": op.fact} for op in turn.state],
    }


def _turn(row: Mapping[str, Any]) -> Turn:
    capabilities = tuple([_name("turns.capabilities", value) for value in row["capabilities"]])
    state = tuple([StateOp(_name("turns.state.op", op["op"]), op["key"], op["fact"]) for op in row["state"]])
    return Turn(capabilities, state)


def _question_row(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "dimension": _NUMBERS["questions.dimension"][question.dimension],
        "turn": question.turn,
        "question": question.question,
        "answer": question.answer,
        "choices": list(question.choices),
        "images": list(question.images),
    }


def _question(row: Mapping[str, Any]) -> Question:
    return Question(
        row["id"],
        _name("questions.dimension", row["dimension"]),
        row["turn"],
        row["question"],
        row["answer"],
        tuple(row["choices"] or ()),
        tuple(row["images"] or ()),
    )


def _check_row(check: Check) -> dict[str, Any]:
    capability = check.capability
    return {
        "id": check.id,
        "turn": check.turn,
        "slot": check.slot,
        "criterion": check.criterion,
        "kind": _NUMBERS["checks.kind"][check.kind],
        "capability": None if capability is None else _NUMBERS["checks.capability"][capability],
        "probe": check.probe,
    }


def _check(row: Mapping[str, Any]) -> Check:
    capability = row["capability"]
    return Check(
        row["id"],
        row["turn"],
        row["slot"],
        row["criterion"],
        _name("checks.kind", row["kind"]),
        None if capability is None else _name("checks.capability", capability),
        row["probe"],
    )
