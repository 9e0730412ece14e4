"""The durable event log: one writer for all running Turns of this replica, and any number of watchers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Protocol

from fleet.session.v1 import turn_event_pb2 as pb

from services.common.clock import Clock
from services.common.logging import get_logger
from services.session.events.turn_log import EventWrite, LogLimits, StoredEvent, TurnLog
from services.session.turns.turn import Turn

BATCH_SECONDS = 0.02
"""How long the writer gathers events before it writes them; a flush doesn't wait."""

BATCH_EVENTS = 512
"""Most events of one Turn in one write."""

READ_EVENTS = 128
"""Most events that a watcher holds."""

MESSAGE_BYTES = 1024 * 1024
"""Size at which a watcher's batch is handed on; one larger event makes a larger batch."""

TERMINAL_KINDS = frozenset({"turn_completed", "turn_failed", "turn_cancelled", "turn_timed_out"})
"""The payloads of last events."""

_log = get_logger(__name__)


class EventStore(Protocol):
    """Where events are kept."""

    async def append(self, writes: Sequence[EventWrite]) -> frozenset[str]:
        """Store the events in one transaction; returns the ids of Turns whose epoch moved or which have ended."""
        ...

    async def read(self, turn_id: str, after: int, limit: int) -> list[StoredEvent]:
        """Up to `limit` events after a sequence, in order."""
        ...

    async def last_sequence(self, turn_id: str) -> int:
        """The last stored sequence, 0 when there is none."""
        ...

    async def is_ended(self, turn_id: str) -> bool:
        """Whether the Turn has ended or no longer exists."""
        ...


class EventLog:
    """Makes appended events durable in small batches and serves watchers from memory or the database.

    Owned by the composition root: `start()` once on the server's loop, `await stop()` after the last Turn.
    """

    def __init__(self, store: EventStore, clock: Clock, limits: LogLimits | None = None) -> None:
        """Args: where events are kept, the clock, and limits other than the usual ones."""
        self._store = store
        self._clock = clock
        self._limits = limits or LogLimits()
        self._open: dict[str, TurnLog] = {}
        self._wakeup = asyncio.Event()
        self._urgent = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Start the writer on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._writer = self._loop.create_task(self._write_forever(), name="event-log-writer")

    async def stop(self) -> None:
        """Write what is pending, unless the database refuses, and end the writer."""
        if self._writer is None:
            return
        self._stopping = True
        self._signal(urgent=True)
        await self._writer
        self._writer = None

    def open(self, turn: Turn, next_sequence: int) -> TurnLog:
        """The log of a Turn that this replica runs; `next_sequence` is the first free one."""
        log = TurnLog(turn, next_sequence, self._clock, self._limits, self._wake)
        self._open[turn.id] = log
        return log

    def release(self, turn_id: str) -> None:
        """Forget a Turn that has ended or is lost; its watchers go on from the database."""
        log = self._open.pop(turn_id, None)
        if log is not None:
            log.lose()

    async def watch(self, turn: Turn, after: int, *, snapshot: bool = False) -> AsyncGenerator[list[pb.TurnEvent]]:
        """Events after a sequence in batches: what is stored, then live ones until the last event.

        Args:
            turn: as it was just read; an ended one is never waited for.
            after: the last sequence that is known already.
            snapshot: end at what is stored when the call is made.
        """
        end = await self._store.last_sequence(turn.id) if snapshot or turn.state.terminal else None
        log: TurnLog | None = None
        while end is None or after < end:
            live = self._live(turn.id)
            # A log that was released has the Turn's last events, which spares a look into the database.
            log = live or log
            changed = live.changed if live else None
            events = await self._read(log, turn.id, after)
            if not events:
                if end is not None or not await self._wait(turn.id, after, changed):
                    return
                continue
            if end is not None:
                events = [event for event in events if event.sequence <= end]
            for batch in _batches(events):
                yield batch
            if not events or events[-1].kind in TERMINAL_KINDS:
                return
            after = events[-1].sequence

    def _live(self, turn_id: str) -> TurnLog | None:
        log = self._open.get(turn_id)
        return None if log is None or log.lost else log

    async def _read(self, log: TurnLog | None, turn_id: str, after: int) -> list[StoredEvent]:
        recent = log.tail(after, READ_EVENTS) if log else None
        if log is None or recent is None or (log.lost and not recent):
            return await self._store.read(turn_id, after, READ_EVENTS)
        return recent

    async def _wait(self, turn_id: str, after: int, changed: asyncio.Event | None) -> bool:
        """Wait for more events; False when there can't be any."""
        if changed is not None:
            await changed.wait()
            return True
        if await self._store.is_ended(turn_id):
            return bool(await self._store.read(turn_id, after, 1))
        await asyncio.sleep(self._limits.poll_seconds)
        return True

    def _wake(self, urgent: bool) -> None:
        if self._loop is None or self._loop.is_closed():
            return
        if not self._wakeup.is_set() or (urgent and not self._urgent.is_set()):
            with suppress(RuntimeError):  # The loop was closed by another thread between the check and the call.
                self._loop.call_soon_threadsafe(self._signal, urgent)

    def _signal(self, urgent: bool) -> None:
        self._wakeup.set()
        if urgent:
            self._urgent.set()

    async def _write_forever(self) -> None:
        while not self._stopping:
            await self._wakeup.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), BATCH_SECONDS)
            self._wakeup.clear()
            self._urgent.clear()
            if not await self._write_once() and not self._stopping:
                await asyncio.sleep(self._limits.retry_seconds)
                self._wakeup.set()
        while self._pending() and await self._write_once():
            pass

    def _pending(self) -> list[EventWrite]:
        return [write for log in self._open.values() if (write := log.pending(BATCH_EVENTS)).events]

    async def _write_once(self) -> bool:
        """Write the pending events of all Turns; False when the database refused."""
        writes = self._pending()
        if not writes:
            return True
        try:
            refused = await self._store.append(writes)
        except Exception:  # noqa: BLE001  Whatever the database says, the Turns go on and the write is repeated.
            _log.exception("events could not be stored; they are kept and written again")
            return False
        for write in writes:
            self._settle(write, refused)
        return True

    def _settle(self, write: EventWrite, refused: frozenset[str]) -> None:
        log = self._open.get(write.turn.id)
        if log is None:
            return
        if write.turn.id in refused:
            _log.warning("events of a Turn were refused: its ownership moved on or it has ended", turn=write.turn.id)
            log.lose()
            return
        log.written(write.events)
        if log.pending(1).events:
            self._wakeup.set()


def _batches(events: Sequence[StoredEvent]) -> list[list[pb.TurnEvent]]:
    batches: list[list[pb.TurnEvent]] = []
    size = MESSAGE_BYTES
    for event in events:
        if size + len(event.data) > MESSAGE_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(pb.TurnEvent.FromString(event.data))
        size += len(event.data)
    return batches
