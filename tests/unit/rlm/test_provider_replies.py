"""What is done with a provider's reply before anybody reads it."""

from __future__ import annotations

import email.utils
import json
import time

import httpx2
import pytest

from services.rlm.models.provider_replies import (
    NO_TEXT,
    fill_missing_text,
    redact_error,
    retry_after,
    retry_delay,
    with_body,
)

KEY = "dapi0123456789abcdef"


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {KEY}",
        "Authorization: Bearer abcdef123456",
        "key sk-proj-abcdef0123456789xyz is wrong",
        "see https://user:password@host.example/v1?key=abc",
    ],
)
def test_errors_lose_credentials_and_addresses(text: str) -> None:
    body = json.dumps({"error": {"message": text}}).encode()
    shown = json.loads(redact_error(body, (KEY,)))["error"]["message"]
    for hidden in (KEY, "abcdef", "host.example", "password"):
        assert hidden not in shown


def test_plain_errors_stay_readable() -> None:
    body = b'{"error": {"message": "maximum context length is 8192 tokens", "code": "context_length_exceeded"}}'
    assert redact_error(body, ()) == body


def test_a_missing_text_gets_a_marker() -> None:
    reply = {
        "choices": [{"message": {"content": None}}, {"message": {"content": "fine"}}],
        "usage": {"total_tokens": 3},
    }
    filled = json.loads(fill_missing_text(json.dumps(reply).encode()))
    assert [choice["message"]["content"] for choice in filled["choices"]] == [NO_TEXT, "fine"]
    assert filled["usage"] == {"total_tokens": 3}


def test_a_reply_without_a_choice_gets_one() -> None:
    assert json.loads(fill_missing_text(b'{"choices": []}'))["choices"][0]["message"]["content"] == NO_TEXT


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b'{"choices": 3}', b'{"choices": [{"message": null}]}'])
def test_other_bodies_are_left_alone(body: bytes) -> None:
    assert fill_missing_text(body) == body


def test_waiting_times() -> None:
    assert retry_after("1.5") == 1.5
    assert retry_after("-3") == 0.0
    assert retry_after("soon") is None
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert 25 < (retry_after(date) or 0) <= 30
    assert [retry_delay(None, attempt) for attempt in range(6)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert retry_delay(httpx2.Response(429, headers={"Retry-After": "7"}), 0) == 7.0


def test_a_decoded_body_replaces_the_stream() -> None:
    response = httpx2.Response(200, headers={"Content-Encoding": "gzip", "X-Request-Id": "r1"}, content=b"")
    changed = with_body(response, b"plain")
    assert changed.content == b"plain"
    assert changed.headers["x-request-id"] == "r1"
    assert "content-encoding" not in changed.headers
