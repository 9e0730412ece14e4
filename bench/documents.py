"""Documents of any size whose right answer is known."""

from __future__ import annotations

MEGABYTE = 1_000_000
_LINE = (
    "needle: a line of a document as long as those of real texts are, number {number:08d}, and no longer than that.\n"
)
LINE_BYTES = len(_LINE.format(number=0))


def document(size: int, salt: int = 0) -> str:
    """A text of about `size` bytes; another `salt` gives another text of the same length."""
    return "".join(_LINE.format(number=salt + number) for number in range(lines(size)))


def lines(size: int) -> int:
    """How many lines, and so needles, a document of `size` has."""
    return max(1, size // LINE_BYTES)
