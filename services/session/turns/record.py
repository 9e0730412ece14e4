"""The durable record of one running Turn: implements `services.session.runner.TurnRecord`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from services.common.clock import Clock
from services.common.errors import FleetError
from services.session.events import payloads as event_payloads
from services.session.events.log import EventLog
from services.session.refusals import ownership_lost
from services.session.store import Store
from services.session.turns.spending import BudgetLine
from services.session.turns.turn import Commit, HistoryRecord, Turn, TurnEnd, TurnState

T = TypeVar("T")

FLUSH_SECONDS = 10.0
"""How long an end waits for the events before it."""


class DurableTurnRecord:
    """Writes one Turn under its epoch, events and state alike, and wakes its watchers."""

    def __init__(
        self, turn: Turn, epoch: int, next_sequence: int, store: Store, events: EventLog, clock: Clock
    ) -> None:
        """Args: the Turn, the epoch of its writes, its next free sequence, and where to write."""
        self._turn = turn
        self._epoch = epoch
        self._store = store
        self._events = events
        self._clock = clock
        self._log = events.open(turn, next_sequence)

    def append(self, kind: str, payload: Message) -> None:
        """Append one event, from any thread, without blocking."""
        self._log.append(kind, payload)

    async def flush(self) -> None:
        """Return when every event appended so far is durable."""
        await self._log.flush()

    async def enter(self, state: TurnState, detail: str = "") -> None:
        """Move the Turn to a later running state, with its event.

        Raises:
            FleetError: OWNERSHIP_LOST.
        """
        await self._store.turns.set_state(self._turn, self._epoch, state, self._clock.now())
        self._log.append("turn_phase", event_payloads.phase(state, detail))

    async def progress(self, iterations: int, budget: Sequence[BudgetLine]) -> None:
        """Record how far the Turn is.

        Raises:
            FleetError: OWNERSHIP_LOST.
        """
        await self._store.turns.progress(self._turn, self._epoch, iterations, budget)

    async def history(self) -> tuple[HistoryRecord, ...]:
        """Every committed Turn of the Session, oldest first."""
        return await self._store.turns.history(self._turn.session)

    async def commit(self, commit: Commit) -> int:
        """Complete the Turn in one transaction; returns the Session's new checkpoint version.

        A cancellation doesn't stop a commit that has begun: it is raised once the outcome is known.

        Raises:
            FleetError: OWNERSHIP_LOST, or COMMIT_FAILED; the Turn is then still running.
        """
        return await _undisturbed(self._commit(commit))

    async def end(self, end: TurnEnd) -> None:
        """End the Turn without an answer in one transaction; not stopped by a cancellation either.

        Raises:
            FleetError: OWNERSHIP_LOST, or COMMIT_FAILED.
        """
        await _undisturbed(self._end(end))

    async def _commit(self, commit: Commit) -> int:
        await self._close()
        try:
            ended = await self._store.endings.commit(
                self._turn, self._epoch, commit, self._clock.now(), event_payloads.last_events
            )
        except BaseException:
            self._log.reopen()
            raise
        self._log.written(ended.events)
        self._events.release(self._turn.id)
        return ended.checkpoint_version

    async def _end(self, end: TurnEnd) -> None:
        await self._close()
        try:
            ended = await self._store.endings.end(
                self._turn, self._epoch, end, self._clock.now(), event_payloads.last_events
            )
        except BaseException:
            self._log.reopen()
            raise
        self._log.written(ended.events)
        self._events.release(self._turn.id)

    async def _close(self) -> None:
        try:
            await self._log.close(FLUSH_SECONDS)
        except TimeoutError as error:
            message = "The Turn's events could not be stored."
            raise FleetError("COMMIT_FAILED", message) from error
        if self._log.lost:
            raise ownership_lost(self._turn.id)


async def _undisturbed(work: Coroutine[None, None, T]) -> T:
    """Run `work` to its end; a cancellation meanwhile is raised afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error from None
        raise
