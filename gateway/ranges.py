"""The `Range` header of downloads: one range of bytes (RFC 9110, section 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ONE_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


@dataclass(frozen=True)
class ByteRange:
    """Consecutive bytes of a file: `offset`, `length`, and the whole file's `total`, in bytes."""

    offset: int
    length: int
    total: int

    @property
    def content_range(self) -> str:
        """The `Content-Range` value."""
        return f"bytes {self.offset}-{self.offset + self.length - 1}/{self.total}"


def parse_range(header: str | None, total: int) -> ByteRange | None:
    """The range that `header` asks of a file of `total` bytes.

    Returns:
        None when the whole file is to be sent: no header, or one that the standard says to ignore.

    Raises:
        ValueError: the range lies outside the file.
    """
    match = _ONE_RANGE.fullmatch(header.strip()) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        length = min(int(last), total)
        if length == 0:
            raise ValueError("the range is empty")
        return ByteRange(total - length, length, total)
    start, end = int(first), min(int(last), total - 1) if last else total - 1
    if last and int(last) < start:
        return None
    if start >= total:
        raise ValueError("the range begins after the end of the file")
    return ByteRange(start, end - start + 1, total)
