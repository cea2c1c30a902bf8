"""The client for OpenAI-compatible servers, against a real one on the loopback interface."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server import Answer, Server, chat, error, html, reply
from tests.strategies import colour_png
from yanami_dataset.errors import ImageError, SpecError
from yanami_dataset.images import sha256
from yanami_metric.http import Client, Key, Policy, base_url
from yanami_metric.http_body import DataUri, DataUris, FormBody, decode_base64, decode_data_uri, json_body
from yanami_metric.http_faults import KINDS, HttpFault, fault_of, retry_after
from yanami_metric.records import ImageRef

SECRET = "sk-test/0123456789+abcdef"  # noqa: S105 - the slash and plus are escaped in JSON by some, in addresses by all
QUICK = Policy(timeout=5, attempts=3, backoff=0.01, max_wait=1)


def image(number: int = 0, data: bytes | None = None) -> ImageRef:
    data = colour_png(number) if data is None else data
    return ImageRef(sha256(data), 4, 3, lambda: data)


def post(url, payload=None, policy=QUICK, key=None, body=None, **more):
    async def call():
        async with Client(url, key or Key(None), policy, **more) as client:
            return await client.post("/chat/completions", body or json_body(payload or {}, DataUris()))

    return asyncio.run(call())


def fault(url, policy=QUICK, **more) -> HttpFault:
    with pytest.raises(HttpFault) as caught:
        post(url, policy=policy, **more)
    assert caught.value.kind in KINDS
    return caught.value


# Bodies


def test_images_are_made_base64_once_and_arrive_byte_for_byte():
    uris, refs = DataUris(), [image(1), image(2), image(1)]
    payload = {"text": 'say "é" \x00', "content": [{"url": DataUri(ref)} for ref in refs]}
    with Server() as server:
        post(server.url, body=json_body(payload, uris))
        post(server.url, body=json_body(payload, uris))
        assert server.calls[0].images == server.calls[1].images == [ref.read() for ref in refs]
        assert server.calls[0].json["text"] == payload["text"]
        assert server.calls[0].headers["content-type"] == "application/json"
        assert "transfer-encoding" not in server.calls[0].headers  # some servers don't take chunks
        assert server.calls[0].headers["accept-encoding"] == "identity"
    assert uris.made == 2


def test_the_kept_base64_is_bounded_and_the_least_used_goes():
    one = len(DataUris().of(image(1)))
    uris = DataUris(limit=2 * one)
    for number in (1, 2, 1, 3, 1, 2):
        uris.of(image(number))
        assert uris.size <= 2 * one
    assert uris.made == 4  # 1, 2, 3, and 2 again
    assert DataUris(limit=1).of(image(1))  # what is larger than the limit passes through


def test_only_images_are_spliced():
    with pytest.raises(TypeError, match="DataUri, got bytes"):
        json_body({"a": b"x"}, DataUris())
    with pytest.raises(ImageError, match="expected an image"):
        json_body({"a": DataUri(image(data=b"no image"))}, DataUris())


def test_a_form_carries_files_as_they_are_and_can_be_sent_again():
    big = colour_png(1) + b"\0" * 2**21
    body = FormBody({"prompt": "é\n--x"}, [("image[]", "image/png", big), ("image[]", "image/jpeg", b"\r\n--")])
    with Server(lambda call: chat() if call.again else error(500)) as server:
        post(server.url, body=body)
        first, again = server.calls
    assert first.form == again.form == {"prompt": ["é\n--x"]}
    assert first.files == again.files == tuple(body.files)


@given(st.binary(min_size=1))
def test_base64_is_read_whole_or_not_at_all(data):
    import base64

    text = base64.b64encode(data).decode()
    assert decode_base64(text) == decode_base64(text[:2] + "\n" + text[2:]) == data
    assert decode_data_uri("data:image/png;base64," + text) == data
    assert decode_base64(text + "!") is None and decode_data_uri("data:text/html;base64," + text) is None


# Faults


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (error(400, "content_filter", "flagged"), "refused", "HTTP 400: flagged"),
        (error(400, "moderation_blocked"), "refused", "HTTP 400: it failed"),
        (
            reply({"error": {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, 400),
            "refused",
            "400",
        ),
        (reply([{"error": {"code": 400, "message": "bad"}}], 400), "bad_request", "HTTP 400: bad"),
        (error(400, "context_length_exceeded"), "too_long", "it failed"),
        (error(400, "invalid_image_format"), "bad_image", "it failed"),
        (error(413), "too_large", "HTTP 413"),
        (html(413, "Entity too large"), "too_large", "HTTP 413: Entity too large"),
        (error(401), "auth", "HTTP 401"),
        (error(403, "content_policy_violation"), "refused", "HTTP 403"),
        (error(403), "auth", "HTTP 403"),
        (reply({"detail": "Not Found"}, 404), "not_found", "HTTP 404: Not Found"),
        (reply({"error": "no such model"}, 404), "not_found", "HTTP 404: no such model"),
        (reply({"detail": [{"loc": ["body"]}]}, 422), "bad_request", '[{"loc": ["body"]}]'),
        (error(429, "insufficient_quota"), "quota", "HTTP 429"),
        (error(402), "quota", "HTTP 402"),
        (html(), "malformed", "expected JSON, got Welcome"),
        (Answer(body=b""), "malformed", "expected JSON, got nothing"),
        (Answer(body=b'{"choices": ['), "malformed", "expected JSON"),
        (Answer(body=b"[" * 1900), "malformed", "expected JSON"),
        (Answer(body=b'"' + b"x" * 3000 + b'"'), "malformed", "at most 2000 bytes"),
        (
            Answer(body=gzip.compress(b" " * 2**20), headers={"Content-Encoding": "gzip"}),
            "malformed",
            "at most 2000 bytes",
        ),
        (Answer(body=b"x" * 1000, endless=True), "malformed", "at most 2000 bytes"),
        (Answer(400, b"x" * 1000, endless=True), "bad_request", "HTTP 400: xxx"),
        (reply({"error": {"message": "flagged", "code": "content_filter"}}), "refused", "flagged"),
    ],
)
def test_what_will_not_pass_is_told_apart_and_asked_once(answer, kind, reason):
    with Server(lambda call: answer) as server:
        found = fault(server.url, Policy(attempts=3, backoff=0.01, max_bytes=2000))
        assert (found.kind, len(server.calls)) == (kind, 1)
    assert reason in found.reason and len(found.reason) < 400 and found.__context__ is None


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (error(429), "rate_limit", "HTTP 429"),
        (error(500), "server", "HTTP 500"),
        (html(503, "Bad gateway"), "server", "HTTP 503: Bad gateway"),
        (reply({"error": {"code": 502, "message": "provider"}}), "server", "error 502: provider"),
        (chat().but(cut=0), "connection", "isconnected"),
        (chat().but(cut=10), "connection", "not complete"),
        (chat().but(delay=5), "timeout", "within 0.2 s"),
        (chat().but(drip=0.05), "timeout", "within 0.2 s"),
    ],
)
def test_what_may_pass_is_tried_again_a_bounded_number_of_times(answer, kind, reason):
    policy = Policy(timeout=0.2, attempts=3, backoff=0.01)
    seen = []
    with Server(lambda call: answer) as server:
        found = fault(server.url, policy, on_fault=seen.append)
        assert (found.kind, len(server.calls)) == (kind, 3)
    assert reason in found.reason and "attempt 3 of 3" in found.reason and found.__context__ is None
    assert [error.kind for error in seen] == [kind] * 3
    with Server(lambda call: answer if call.number < 2 else chat("there")) as server:
        assert post(server.url, policy=policy)["choices"][0]["message"]["content"] == "there"


def test_nobody_there_is_a_fault():
    with Server() as server:
        url = server.url
    assert fault(url).kind == "connection"


def test_the_server_says_how_long_to_wait():
    asked = {"Retry-After": "0.3"}
    with Server(lambda call: chat() if call.number else error(429, headers=asked)) as server:
        post(server.url)
        first, second = server.calls
        assert 0.3 <= second.at - first.at < 1
    with Server(lambda call: error(503, headers={"Retry-After": "3600"})) as server:
        start = time.monotonic()
        found = fault(server.url)
        assert time.monotonic() - start < 1 and len(server.calls) == 1
    assert found.wait == 3600 and "asks to wait 3600 s, more than max_wait" in found.reason


def test_retry_after_is_a_number_or_a_date():
    now = datetime(2026, 11, 30, tzinfo=UTC)
    date = format_datetime(now + timedelta(seconds=90), usegmt=True)
    assert retry_after({"retry-after": date}, now) == 90
    assert retry_after({"Retry-After": date}, now + timedelta(hours=1)) == 0
    assert retry_after({"Retry-After": "7", "Retry-After-Ms": "250"}) == 0.25
    assert [retry_after({"Retry-After": text}) for text in ("", "soon", "-1", "nan")] == [None] * 4


def test_waits_grow_are_scattered_and_end():
    policy = Policy(backoff=1, max_wait=5)
    for attempt, most in ((1, 1), (2, 2), (3, 4), (4, 5), (50, 5)):
        waits = {policy.wait(attempt, None) for _ in range(20)}
        assert most / 2 <= min(waits) < max(waits) <= most
    assert policy.wait(1, 3) >= 3.5


_NAMES = st.sampled_from(["error", "code", "message", "detail", "innererror", "type"])
_JSON = st.recursive(st.none() | st.text(), lambda some: st.lists(some) | st.dictionaries(_NAMES, some))


@given(st.integers(300, 599), st.binary(max_size=60) | _JSON.map(lambda value: json.dumps(value).encode()))
def test_every_error_body_is_some_fault(status, body):
    assert fault_of(status, {}, body).kind in KINDS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attempts", 0),
        ("attempts", 1.5),
        ("timeout", -1),
        ("timeout", float("nan")),
        ("backoff", "1"),
        ("max_bytes", True),
    ],
)
def test_a_policy_is_checked(name, value):
    with pytest.raises(SpecError, match=f"{name}: expected a number of"):
        Policy(**{name: value})


# Secrets


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("SOME_KEY", f" {SECRET}\n")
    return Key("SOME_KEY")


def test_the_key_goes_to_the_server_and_shows_nowhere(key, caplog):
    caplog.set_level(logging.DEBUG)
    escaped = SECRET.replace("/", "\\/")
    said = f"wrong key {SECRET}, {escaped}, {SECRET[:9]}***{SECRET[-4:]}"
    echo = Answer(401, f'{{"error": {{"message": "{said}"}}}}'.replace("wrong", "w" * 280).encode())
    answers = [echo, html(500, said), chat(f"my key is {SECRET}"), reply({}, 302, headers={"Location": "/" + SECRET})]
    texts = [repr(key), repr({"headers": key})]
    with Server(lambda call: answers[call.number % 4]) as server:
        for kind in ("auth", "server", "", "redirect"):
            if kind:
                found = fault(server.url, Policy(attempts=1), key=key)
                assert found.kind == kind
                texts += [str(found), repr(found), repr(found.__dict__)]
            else:
                texts.append(repr(post(server.url, key=key)))
        assert {call.headers["authorization"] for call in server.calls} == {f"Bearer {SECRET}"}
    texts += [record.getMessage() for record in caplog.records]
    for part in (SECRET, SECRET[:9], SECRET[-8:]):
        assert not any(part in text for text in texts)
    assert "my key is [key]" in "".join(texts)


def test_a_redirect_is_not_followed(key):
    with Server() as other:
        answer = reply({}, 307, headers={"Location": f"{other.url}/chat/completions?token=abc"})
        with Server(lambda call: answer) as server:
            found = fault(server.url, key=key)
            assert len(server.calls) == 1
        assert other.asked == []
    assert found.kind == "redirect" and other.url in found.reason and "abc" not in found.reason


def test_no_cookie_is_kept():
    async def twice(url):
        async with Client(url, Key(None), QUICK) as client:
            return [await client.post("/x", json_body({}, DataUris())) for _ in range(2)]

    with Server(lambda call: chat().but(headers={"Set-Cookie": "who=me"})) as server:
        asyncio.run(twice(server.url.replace("127.0.0.1", "localhost")))
        assert len(server.calls) == 2 and not any("cookie" in call.headers for call in server.calls)


def test_a_key_is_optional_unless_it_is_named(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert not Key() and not Key(None)
    with Server() as server:
        post(server.url, key=Key())
        assert "authorization" not in server.calls[0].headers
    with pytest.raises(SpecError, match="environment variable MY_KEY, which is not set"):
        Key("MY_KEY", required=True)
    monkeypatch.setenv("MY_KEY", "abc\r\nX-Evil: 1")
    with pytest.raises(SpecError, match=r"MY_KEY: expected printable ASCII") as caught:
        Key("MY_KEY")
    assert "Evil" not in str(caught.value)
    monkeypatch.setenv("MY_KEY", "EMPTY")
    assert Key("MY_KEY").scrub(b"EMPTY") == b"EMPTY"  # no secret, and maybe an answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:8000",
        "ftp://host/v1",
        "http://",
        "http://host:99999",
        "http://[::1/v1",
        "http://host/v1\n/x",
        "http://me:hunter2@host/v1",
        "https://host/v1?key=hunter2",
        "https://host/v1#hunter2",
        "me:hunter2@host",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_its_secrets(text):
    with pytest.raises(SpecError, match="expected a base URL such as") as caught:
        base_url(text)
    assert "hunter2" not in str(caught.value)


# The rest


def test_many_calls_at_once():
    async def calls(url):
        async with Client(url, Key(None), QUICK) as client:
            body = json_body({}, DataUris())
            await asyncio.gather(*(client.post("/chat/completions", body) for _ in range(40)))

    with Server(lambda call: chat().but(delay=0.2)) as server:
        start = time.monotonic()
        asyncio.run(calls(server.url))
        assert server.most == 40 and time.monotonic() - start < 2


def test_without_aiohttp_the_error_names_what_to_install():
    code = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from yanami_metric.http import Client, Key\n"
        "from yanami_dataset.errors import MissingExtraError\n"
        "try: Client('http://localhost/v1', Key(None))\n"
        "except MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'yanami[judge]'" in done.stdout
