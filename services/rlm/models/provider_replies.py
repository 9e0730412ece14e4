"""What is done with a provider's reply before anybody reads it."""

from __future__ import annotations

import email.utils
import json
import re
import time

import httpx2

RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504})
"""HTTP statuses after which the same request may be sent again."""

NO_TEXT = "[ERROR] The model's reply holds no text."
"""What stands for a reply without text, in the form that DSPy gives failed prompts of a batch."""

_BODY_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
_URL = re.compile(r"https?://[^\s\"'<>\\]+")
_CREDENTIAL = re.compile(r"(?i)\b(?:bearer\s+[\w.~+/=-]{6,}|(?:sk|pk|key|dapi)-?[\w-]{16,})")
_MAX_BACKOFF = 8.0


def with_body(response: httpx2.Response, body: bytes) -> httpx2.Response:
    """Return `response` with `body`, decoded, in place of its stream."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _BODY_HEADERS]
    return httpx2.Response(response.status_code, headers=headers, content=body)


def redact_error(body: bytes, secrets: tuple[str, ...]) -> bytes:
    """Return an error's body without the credentials, addresses and tokens that providers like to echo."""
    text = body.decode("utf-8", "replace")
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    return _CREDENTIAL.sub("[redacted]", _URL.sub("[address]", text)).encode()


def fill_missing_text(body: bytes) -> bytes:
    """Return a completion's body with a marker where a choice, or all of them, have no text.

    DSPy drops a whole batch of prompts with an exception for one reply without text, such as a filtered one.
    """
    try:
        reply = json.loads(body)
        if not reply["choices"]:
            reply["choices"] = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant"}}]
        empty = [choice["message"] for choice in reply["choices"] if not choice["message"].get("content")]
    except (ValueError, KeyError, TypeError, AttributeError):
        return body
    for message in empty:
        message["content"] = NO_TEXT
    return json.dumps(reply).encode() if empty else body


def retry_delay(response: httpx2.Response | None, attempt: int) -> float:
    """Return how many seconds to wait before request number `attempt` + 2, as the provider asks or growing."""
    asked = retry_after(response.headers.get("retry-after", "")) if response is not None else None
    return asked if asked is not None else min(_MAX_BACKOFF, 0.5 * 2**attempt)


def retry_after(value: str) -> float | None:
    """Return the seconds that a Retry-After header asks for, given as such or as a date; None when it is neither."""
    try:
        return max(0.0, float(value))
    except ValueError:
        date = email.utils.parsedate_tz(value)
        return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else None
