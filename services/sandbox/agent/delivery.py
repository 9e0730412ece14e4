"""Exactly-once delivery over a channel that may be cut and attached again.

The outbox keeps what was sent and not yet acknowledged; the inbox takes each numbered frame once.
"""

from __future__ import annotations

from .frames import OUTPUT, Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_UNACKNOWLEDGED_BYTES = 64 << 20
MAX_AHEAD = 64


class Outbox:
    """Numbers frames and keeps them until the other side has them.

    Args:
        limit: Bytes kept at most. Beyond it streamed output is dropped, because `done` carries the text again.
    """

    def __init__(self, limit: int = MAX_UNACKNOWLEDGED_BYTES) -> None:
        self._limit = limit
        self.reset()

    def reset(self) -> None:
        """Begin an epoch: nothing is kept and numbers start at 1."""
        self._frames: dict[int, Frame] = {}
        self._bytes = 0
        self.last_sequence = 0

    @property
    def full(self) -> bool:
        """Whether more is kept than the limit."""
        return self._bytes >= self._limit

    def add(self, frame: Frame) -> bool:
        """Number a frame and keep it; return False when it was dropped instead."""
        if frame.type == OUTPUT and self.full:
            return False
        self.last_sequence += 1
        frame.sequence = self.last_sequence
        self._frames[frame.sequence] = frame
        self._bytes += len(frame.body)
        return True

    def acknowledge(self, sequence: int) -> None:
        """Forget everything up to and including a sequence."""
        while self._frames:
            first = next(iter(self._frames))
            if first > sequence:
                return
            self._bytes -= len(self._frames.pop(first).body)

    def after(self, sequence: int) -> Iterator[Frame]:
        """Return what is kept beyond a sequence, in order."""
        return iter([frame for number, frame in self._frames.items() if number > sequence])


class Inbox:
    """Takes each numbered frame once."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin an epoch."""
        self.taken = 0
        self._ahead: set[int] = set()

    def take(self, sequence: int, *, ahead: bool = False) -> str:
        """Decide about a frame.

        Args:
            sequence: Its number; 0 is outside the order.
            ahead: Whether it may overtake missing ones, as the frame that re-opens a channel must.

        Returns:
            "new", "repeated" or "gap".
        """
        if sequence == 0:
            return "new"
        if sequence <= self.taken or sequence in self._ahead:
            return "repeated"
        if sequence == self.taken + 1:
            self.taken = sequence
            while self.taken + 1 in self._ahead:
                self.taken += 1
                self._ahead.discard(self.taken)
            return "new"
        if ahead and len(self._ahead) < MAX_AHEAD:
            self._ahead.add(sequence)
            return "new"
        return "gap"
