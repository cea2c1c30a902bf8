# ruff: noqa: E501 a table reads best a row a line
"""What the importer of chat logs refuses, and what it says: name -> (line, a piece of the message)."""

import base64
import struct
import zlib
from io import BytesIO

from PIL import Image


def data_uri(data):
    return "data:image/png;base64," + base64.b64encode(data).decode()


def user(*content):
    return {"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else [*content]}


def assistant(*content):
    return {**user(*content), "role": "assistant"}


def text(value):
    return {"type": "text", "text": value}


def bomb():
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def animation():
    buffer = BytesIO()
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(buffer, format="GIF", save_all=True, append_images=frames[1:])
    return buffer.getvalue()


def shows(source, **more):
    return {
        "id": "bad",
        "messages": [user(text("Look."), {"type": "image", "image": source}), assistant("Yes.")],
        **more,
    }


def says(**more):
    return {"id": "bad", "messages": [user("Hello."), assistant("Hi.")], **more}


def draws(part, **more):
    return {"id": "bad", "messages": [user("Draw."), assistant(part)], **more}


QUESTION = {"dimension": "context_retrieval", "turn": 0, "question": "Which?", "answer": "it"}
CHECK = {"turn": 0, "criterion": "It is light."}
IMAGE_A = {"type": "image", "image": "images/a.png"}

# fmt: off
BAD = {
    # lines
    "no JSON": (b"hello\n", "expected a JSON object, got b'hello"),
    "half a JSON": (b'{"id": "bad", "messages": [\n', "expected a JSON object"),
    "a list": (b"[1, 2]\n", "expected a JSON object, one a line, got list: [1, 2]"),
    "deep": (b"[" * 100_000 + b"\n", "expected a JSON object"),
    "not UTF-8": ('{"id": "bé"}\n'.encode("latin-1"), "expected UTF-8, got the bytes b'\\xe9"),
    "half a surrogate": (says(messages=[user("\ud83d"), assistant("Hi.")]), "expected Unicode text, got '\\ud83d'"),
    # structure
    "no messages": ({"id": "bad"}, "messages: expected a list of {role, content}, got None"),
    "sharegpt": ({"id": "bad", "conversations": []}, "rename conversations, from and value"),
    "messages as text": (says(messages="Hello"), "messages: expected a list of {role, content}, got 'Hello'"),
    "role": (says(messages=[{"role": "tool", "content": ""}]), "messages[0].role: expected user or assistant"),
    "late system": (says(messages=[user("a"), {"role": "system", "content": ""}]), "messages[1].role: expected user or"),
    "system image": (says(messages=[{**user(IMAGE_A), "role": "system"}]), "expected a system message of text"),
    "order": (says(messages=[user("a"), user("b")]), "messages[1].role: expected 'assistant' (they alternate"),
    "unpaired": (says(messages=[user("a")]), "messages: expected pairs of user and assistant, got 1 messages"),
    "no turn": (says(messages=[]), "messages: expected at least one turn"),
    "null content": (says(messages=[user("a"), {"role": "assistant", "content": None}]), "messages[1].content: expected"),
    "part type": (says(messages=[user({"type": "audio"}), assistant("b")]), "messages[0].content[0]: expected a part of"),
    "part text": (says(messages=[user(text(5)), assistant("b")]), "messages[0].content[0].text: expected a string, got 5"),
    "id type": (says(id=["x"]), "id: expected a string, got ['x']"),
    "duplicate id": (says(id="good"), "id: expected one that no other dialogue has, got 'good' as in line 1"),
    "scenario": (says(scenario="painting"), "scenario: expected one of fusion, editing, modeling, reasoning, got 'painting'"),
    "key": (says(question=[]), "expected the key 'questions', got 'question'"),
    "extra": (says(extra="x"), "extra: expected an object, got 'x'"),
    # annotations
    "turns": (says(turns=[{}, {}]), "turns: expected 1, one per pair of messages, got 2"),
    "capability": (says(turns=[{"capabilities": ["flying"]}]), "turns[0].capabilities: expected one of"),
    "state": (says(turns=[{"state": [{"op": "update", "key": "k"}]}]), "turns[0].state[0]: expected 'fact', got {'op'"),
    "question key": (says(questions=[{**QUESTION, "hint": 1}]), "questions[0]: expected no keys but answer, choices,"),
    "question type": (says(questions=[{**QUESTION, "turn": "0"}]), "questions[0].turn: expected an integer, got '0'"),
    "question bool": (says(questions=[{**QUESTION, "turn": True}]), "questions[0].turn: expected an integer, got True"),
    "question turn": (says(questions=[{**QUESTION, "turn": 5}]), "questions[0].turn: expected 0 to 0, got 5"),
    "choices": (says(questions=[{**QUESTION, "choices": [1]}]), "questions[0].choices[0]: expected a string, got 1"),
    "questions": (says(questions={"a": 1}), "questions: expected a list of objects, got {'a': 1}"),
    "check key": (draws({"type": "image"}, checks=[{**CHECK, "weight": 2}]), "checks[0]: expected no keys but capability"),
    "check slot": (says(checks=[CHECK]), "checks[0]: expected an existing slot, got turn 0, slot 0"),
    "check": (draws({"type": "image"}, checks=["x"]), "checks[0]: expected an object, got 'x'"),
    # images that aren't declared, mentioned or there
    "undeclared": (draws(IMAGE_A), '"role": "target" (ground truth) or "role": "observed" (what some system drew) on the'),
    "undeclared too": (draws(IMAGE_A), "--assistant-images target|observed for all"),
    "odd role": (draws({**IMAGE_A, "role": "reference"}), "expected to be told what an assistant image is, got role 'ref"),
    "user role": (shows(None, messages=[user({**IMAGE_A, "role": "target"}), assistant("b")]), "to be a reference, got role"),
    "no source": (shows(None), "messages[0].content[1]: expected the image that the user shows, got none"),
    "tag": (says(messages=[user("<image>"), assistant("b")]), "messages[0].content: expected the image that the user"),
    "too few": (shows(None, images=["images/a.png"], messages=[user("<image><image>"), assistant("b")]), "and more mentions"),
    "too many": (says(images=["images/a.png"]), "images: expected one per mention, got 1 and 0 mentions"),
    "images": (says(images="images/a.png"), "images: expected a list of images, got 'images/a.png'"),
    "null": (shows(None, images=[None]), "messages[0].content[1] (images[0]): expected the image that the user shows"),
    "number": (shows(5), "expected a path, a data: URI or {path | bytes | url}, got 5"),
    "missing": (shows("images/z.png"), "got 'images/z.png', which is none"),
    "a folder": (shows("images"), "got 'images', which is none"),
    "null byte": (shows("a\0b"), "expected"),
    "long": (shows("x" * 5000), "expected a path, got 'xxxx"),
    # ways out
    "parent": (shows("../secret.png"), "expected a path inside"),
    "inner parent": (shows("images/../images/a.png"), "expected a path inside"),
    "absolute": (shows("/etc/passwd"), "expected a path inside"),
    "windows": (shows("C:\\x.png"), "expected a path inside"),
    "backslash": (shows("..\\x.png"), "expected a path inside"),
    "link": (shows("link.png"), "got 'link.png', a link to "),
    "loop": (shows("loop.png"), "expected"),
    "file URL": (shows("file:///etc/passwd"), "expected a path inside"),
    "http": (shows("http://example.org/a.png"), "yanami fetches nothing, download it first"),
    "https": (shows("https://example.org/a.png"), "got 'https://example.org/a.png': yanami fetches nothing"),
    "s3": (shows("s3://bucket/a.png"), "expected a path inside"),
    # bytes that are no safe image
    "base64": (shows("data:image/png;base64,%%%"), "expected base64 text, got '%%%'"),
    "plain URI": (shows("data:image/png,abc"), "expected data:image/...;base64,..., got 'data:image/png,abc'"),
    "bytes": (shows({"bytes": [1, 2]}), "expected base64 text, got [1, 2]"),
    "text": (shows("text.png"), "that start with b'<html>'"),
    "zero": (shows("zero.png"), "expected an image (PNG, JPEG, WEBP, GIF, BMP), got no bytes"),
    "truncated": (shows("cut.png"), "expected a whole PNG image, got 40 bytes that are truncated"),
    "enormous": (shows("bomb.png"), "expected at most 64,000,000 pixels, got 20000 x 20000"),
    "animated": (shows("moves.gif"), "expected a single image, got an animated GIF"),
}
# fmt: on
