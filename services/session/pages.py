"""Pages of lists, as AIP-158 has them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from services.session.refusals import page_token_invalid

DEFAULT_SIZE = 50
"""Items of a page when the client names no size."""

MAX_SIZE = 200
"""Most items of a page."""

Key = tuple[datetime, str]
"""Where a page begins: the time and id of the last item before it."""

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CHECK_BYTES = 8


@dataclass(frozen=True)
class Page(Generic[T]):
    """Items of a list, and the token of the next page; empty on the last."""

    items: tuple[T, ...]
    next_token: str = ""


def page_size(asked: int) -> int:
    """The number of items of a page."""
    return min(asked or DEFAULT_SIZE, MAX_SIZE)


def encode(scope: str, key: Key) -> str:
    """An opaque token for the page after `key` of the list that `scope` names."""
    body = json.dumps([scope, (key[0] - _EPOCH) // timedelta(microseconds=1), key[1]]).encode()
    return base64.urlsafe_b64encode(_check(body) + body).decode().rstrip("=")


def decode(scope: str, token: str) -> Key | None:
    """The key in a token; None for an empty one, which stands for the first page.

    Raises:
        FleetError: PAGE_TOKEN_INVALID, when the token is damaged or of another list.
    """
    if not token:
        return None
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        check, body = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
        if check != _check(body):
            raise page_token_invalid()
        made_for, micros, key = json.loads(body)
        if made_for != scope:
            raise page_token_invalid()
        return _EPOCH + timedelta(microseconds=micros), key
    except (ValueError, TypeError) as error:
        raise page_token_invalid() from error


def page_of(scope: str, found: Sequence[T], size: int, key: Callable[[T], Key]) -> Page[T]:
    """The page that `size + 1` found items make: the further one tells that there is a next page."""
    items = tuple(found[:size])
    return Page(items, encode(scope, key(items[-1])) if len(found) > size else "")


def _check(body: bytes) -> bytes:
    """Finds damage, not forgery: a token only says where to go on in a list that the caller may read."""
    return hashlib.sha256(b"fleet.session.page:" + body).digest()[:_CHECK_BYTES]
