"""Identifiers that sort by the time they were made."""

from __future__ import annotations

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS = 80
_LENGTH = 26


class IdSource:
    """Makes ids of 48 bits of milliseconds and 80 random bits, in 26 lower-case base-32 characters.

    Ids of one source are strictly ascending, also within a millisecond and when the wall clock goes back. Safe to use
    from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def new(self) -> str:
        """The next id."""
        candidate = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            if candidate >> _RANDOM_BITS <= self._last >> _RANDOM_BITS:
                candidate = self._last + 1 + secrets.randbits(32)
            self._last = candidate
        return "".join(_ALPHABET[candidate >> shift & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))


_SOURCE = IdSource()


def new_id() -> str:
    """An id that no other call returned: 26 characters of `[0-9a-z]`, later ones sort after earlier ones."""
    return _SOURCE.new()
