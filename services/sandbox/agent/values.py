"""Variable values: pristine bytes kept by content hash, decoded afresh for each execution."""

from __future__ import annotations

from . import wire_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

TEXT, JSON, BYTES = "text", "json", "bytes"
ENCODINGS = frozenset((TEXT, JSON, BYTES))
MAX_STORE_BYTES = 512 << 20


class VariableError(Exception):
    """A variable can't be set: its bytes are missing, incomplete or not in their encoding."""


class ValueStore:
    """Bytes by content hash, collected in parts.

    Args:
        limit: Bytes kept at most; the least recently used complete values go first.

    Attributes:
        dropped: Hashes of values that went to make room, until somebody clears it.
    """

    def __init__(self, limit: int = MAX_STORE_BYTES) -> None:
        self._limit = limit
        self._complete: dict[str, bytes] = {}
        self._partial: dict[str, bytearray] = {}
        self._bytes = 0
        self.dropped: set[str] = set()

    def add_part(self, sha256: str, data: bytes, byte_size: int, *, keep: Iterable[str] = ()) -> None:
        """Append consecutive bytes of a value.

        Args:
            sha256: Hash of encoding and bytes, as the host computed it.
            data: The next bytes.
            byte_size: Size of the whole value.
            keep: Hashes that must not be dropped to make room.

        Raises:
            VariableError: There are more bytes than announced, or more than the store may keep.
        """
        if sha256 in self._complete:
            return
        buffer = self._partial.setdefault(sha256, bytearray())
        if byte_size > self._limit or len(buffer) + len(data) > byte_size:
            del self._partial[sha256]
            raise VariableError(f"a value of {byte_size} bytes doesn't fit or got more bytes than announced")
        buffer += data
        if len(buffer) == byte_size:
            del self._partial[sha256]
            self._make_room(byte_size, set(keep))
            self._complete[sha256] = bytes(buffer)
            self._bytes += byte_size

    def _make_room(self, byte_size: int, keep: set[str]) -> None:
        for sha256 in [known for known in self._complete if known not in keep]:
            if self._bytes + byte_size <= self._limit:
                return
            self.discard(sha256)
            self.dropped.add(sha256)

    def discard(self, sha256: str) -> None:
        """Forget a value."""
        self._bytes -= len(self._complete.pop(sha256, b""))

    def hashes(self) -> list[str]:
        """Return the hashes of complete values."""
        return list(self._complete)

    def get(self, sha256: str) -> bytes:
        """Return a value's bytes and mark it as used.

        Raises:
            VariableError: They were not sent, or not completely.
        """
        try:
            data = self._complete.pop(sha256)
        except KeyError:
            raise VariableError("the bytes of a variable were not sent") from None
        self._complete[sha256] = data
        return data


def decode(encoding: str, data: bytes) -> Any:
    """Return a fresh Python value.

    Raises:
        VariableError: The bytes are not in the encoding, or there is no such encoding.
    """
    try:
        if encoding == TEXT:
            return data.decode("utf-8", "surrogatepass")
        if encoding == JSON:
            return wire_json.loads(data)
    except ValueError as error:
        raise VariableError(f"a variable's bytes are not {encoding}") from error
    if encoding != BYTES:
        raise VariableError(f"no such encoding: {encoding!r}")
    return bytes(data)
