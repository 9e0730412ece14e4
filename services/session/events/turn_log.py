"""The writing end of one running Turn's event log."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from fleet.session.v1 import turn_event_pb2 as pb
from google.protobuf.message import Message

from services.common.clock import Clock
from services.session.events.bounds import bound
from services.session.turns.turn import Turn


@dataclass(frozen=True)
class LogLimits:
    """How much of the log is held in memory, and how patient its writer is.

    Attributes:
        pending_events: detail events beyond so many unwritten ones of a Turn are dropped.
        pending_bytes: detail events beyond so many unwritten bytes of a Turn are dropped.
        tail_events: events of a Turn that are kept for watchers that keep up.
        tail_bytes: bytes of them.
        poll_seconds: how often a Turn that another replica runs is looked at.
        retry_seconds: pause of the writer after the database refused a write.
    """

    pending_events: int = 4096
    pending_bytes: int = 8 * 1024 * 1024
    tail_events: int = 256
    tail_bytes: int = 512 * 1024
    poll_seconds: float = 0.2
    retry_seconds: float = 0.5


DETAIL_KINDS = frozenset(
    {
        "iteration_started",
        "iteration_completed",
        "reasoning",
        "code",
        "output",
        "lm_called",
        "lm_completed",
        "tool_called",
        "tool_completed",
        "child_progress",
        "attachment_read",
        "budget_updated",
    }
)
"""Events that may be dropped under pressure."""

_KINDS = frozenset(field.name for field in pb.TurnEvent.DESCRIPTOR.oneofs_by_name["payload"].fields)


@dataclass(frozen=True)
class StoredEvent:
    """One event as the database has it.

    Attributes:
        sequence: 1, 2, 3 … within the Turn.
        kind: the field of `TurnEvent.payload`.
        time: UTC.
        data: the serialized TurnEvent.
    """

    sequence: int
    kind: str
    time: datetime
    data: bytes


@dataclass(frozen=True)
class EventWrite:
    """Consecutive events of one Turn that are to be written under its epoch."""

    turn: Turn
    events: Sequence[StoredEvent]


def make_event(turn_name: str, sequence: int, time: datetime, kind: str, payload: Message) -> StoredEvent:
    """Number, bound and serialize one event.

    Raises:
        ValueError: the contract has no such kind, or its message is of another type.
    """
    if kind not in _KINDS:
        raise ValueError(f"no event has the payload {kind!r}")
    event = pb.TurnEvent(turn=turn_name, sequence=sequence)
    event.time.FromDatetime(time)
    try:
        getattr(event, kind).CopyFrom(payload)
    except TypeError as error:
        raise ValueError(f"{type(payload).__name__} is not the payload of {kind!r}") from error
    getattr(event, kind).SetInParent()
    bound(event)
    return StoredEvent(sequence, kind, time, event.SerializeToString())


class TurnLog:
    """Takes the events of one Turn from any thread; the EventLog's writer makes them durable.

    Sequences are given in the order of the calls. `durable` is the last sequence that the database has.
    """

    def __init__(
        self, turn: Turn, next_sequence: int, clock: Clock, limits: LogLimits, wake: Callable[[bool], None]
    ) -> None:
        """Args: the Turn, its next free sequence, the clock, the limits, and what wakes the writer, urgently or not."""
        self.turn = turn
        self.durable = next_sequence - 1
        self.lost = False
        self.changed = asyncio.Event()
        self._clock = clock
        self._limits = limits
        self._wake = wake
        self._lock = threading.Lock()
        self._next = next_sequence
        self._pending: deque[StoredEvent] = deque()
        self._pending_bytes = 0
        self._dropped = 0
        self._closed = False
        self._tail: deque[StoredEvent] = deque()
        self._tail_bytes = 0

    def append(self, kind: str, payload: Message) -> None:
        """Append one event, from any thread, without blocking; dropped once the log is closed or lost.

        Raises:
            ValueError: the contract has no such event.
        """
        with self._lock:
            if self._closed or self.lost:
                return
            if kind in DETAIL_KINDS and self._full():
                self._dropped += 1
                return
            self._add(kind, payload)
        self._wake(False)

    async def flush(self) -> None:
        """Return when every event appended so far is durable, or can't be because the Turn is lost."""
        with self._lock:
            target = self._next - 1
        while self.durable < target and not self.lost:
            changed = self.changed
            self._wake(True)
            await changed.wait()

    async def close(self, seconds: float) -> None:
        """Take no more events and flush; tell of dropped ones first.

        Raises:
            TimeoutError: the database did not take the events in that many seconds; the log is open again.
        """
        with self._lock:
            if self._dropped and not self._closed:
                self._add("warning", pb.Warning(code="events_dropped", message=_dropped_message(self._dropped)))
                self._dropped = 0
            self._closed = True
        try:
            await asyncio.wait_for(self.flush(), seconds)
        except TimeoutError:
            self.reopen()
            raise

    def reopen(self) -> None:
        """Take events again after an end that was not stored."""
        with self._lock:
            self._closed = False

    def pending(self, limit: int) -> EventWrite:
        """The first `limit` events that are not durable."""
        with self._lock:
            return EventWrite(self.turn, [self._pending[i] for i in range(min(limit, len(self._pending)))])

    def written(self, events: Sequence[StoredEvent]) -> None:
        """Note that the first pending events, or last ones from another transaction, are durable; wake watchers."""
        with self._lock:
            while self._pending and events and self._pending[0].sequence <= events[-1].sequence:
                self._pending_bytes -= len(self._pending.popleft().data)
            self._next = max(self._next, events[-1].sequence + 1)
        for event in events:
            self._tail.append(event)
            self._tail_bytes += len(event.data)
        limits = self._limits
        while len(self._tail) > limits.tail_events or self._tail_bytes > limits.tail_bytes:
            self._tail_bytes -= len(self._tail.popleft().data)
        self.durable = events[-1].sequence
        self._notify()

    def lose(self) -> None:
        """Note that the Turn is written by another owner or has ended: nothing more is taken; wake watchers."""
        with self._lock:
            self.lost = True
            self._pending.clear()
            self._pending_bytes = 0
        self._notify()

    def tail(self, after: int, limit: int) -> list[StoredEvent] | None:
        """Durable events after sequence `after` from memory, or None when memory doesn't reach back that far."""
        if after >= self.durable:
            return []
        if not self._tail or self._tail[0].sequence > after + 1:
            return None
        skip = after + 1 - self._tail[0].sequence
        return [self._tail[i] for i in range(skip, min(skip + limit, len(self._tail)))]

    def _add(self, kind: str, payload: Message) -> None:
        event = make_event(self.turn.name, self._next, self._clock.now(), kind, payload)
        self._next += 1
        self._pending.append(event)
        self._pending_bytes += len(event.data)

    def _full(self) -> bool:
        limits = self._limits
        return len(self._pending) >= limits.pending_events or self._pending_bytes >= limits.pending_bytes

    def _notify(self) -> None:
        former, self.changed = self.changed, asyncio.Event()
        former.set()


def _dropped_message(count: int) -> str:
    noun = "event was" if count == 1 else "events were"
    return f"{count} detail {noun} dropped because they came faster than they could be stored"
