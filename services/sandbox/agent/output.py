"""What an execution printed: the head and the tail within a cap, and the full length."""

from __future__ import annotations


def cut(text: bytes, limit: int) -> bytes:
    """Return at most `limit` bytes: all of it, or head and tail around a note of what is missing."""
    capture = Capture(limit)
    capture.add(text)
    return capture.text()


class Capture:
    """Keeps the first and the last bytes of a stream.

    Args:
        limit: Bytes kept; half for the head, half for the tail.
    """

    def __init__(self, limit: int) -> None:
        self.limit = max(limit, 0)
        self.total = 0
        self._head_limit = self.limit - self.limit // 2
        self._tail_limit = self.limit // 2
        self._head = bytearray()
        self._tail = bytearray()

    @property
    def truncated(self) -> bool:
        """Whether bytes are missing in the middle."""
        return self.total > self.limit

    def add(self, data: bytes) -> None:
        """Append what was printed."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data and self._tail_limit:
            self._tail += data[-self._tail_limit :]
            # Cutting only at twice the size keeps the cost per byte constant.
            if len(self._tail) > 2 * self._tail_limit:
                del self._tail[: -self._tail_limit]

    def text(self) -> bytes:
        """Return valid UTF-8; bytes that are no UTF-8 become U+FFFD."""
        if not self.truncated:
            return (self._head + self._tail).decode("utf-8", "replace").encode()
        tail = bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""
        head = bytes(self._head)
        missing = self.total - len(head) - len(tail)
        note = f"\n… [{missing} bytes omitted of {self.total}] …\n".encode()
        return _whole(head, tail=False) + note + _whole(tail, tail=True)


def _whole(data: bytes, *, tail: bool) -> bytes:
    """Drop a character that the cut left incomplete, then replace what is no UTF-8."""
    if tail:
        start = 0
        while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
            start += 1
        return data[start:].decode("utf-8", "replace").encode()
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        if length > back:
            data = data[:-back]
        break
    return data.decode("utf-8", "replace").encode()
