"""Watches over running Turns: every Turn that starts here ends here, whatever its runner does."""

from __future__ import annotations

import asyncio

from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.logging import get_logger
from services.session.events.log import EventLog
from services.session.ownership.owner import SessionOwner
from services.session.runner import TurnRunner
from services.session.store import Store
from services.session.turns.capacity import Capacity
from services.session.turns.record import DurableTurnRecord
from services.session.turns.turn import Turn, TurnEnd, TurnError, TurnJob, TurnState

RETRY_SECONDS = 1.0
"""Pause before the end of a Turn is stored again, after the database refused."""

_FAULT = TurnError("INTERNAL", "A fault of the server ended the Turn.")
_log = get_logger(__name__)


class TurnSupervisor:
    """Starts Turns, and when a runner's task is over makes sure that the Turn has ended; gives its place back then."""

    def __init__(
        self,
        store: Store,
        events: EventLog,
        owner: SessionOwner,
        capacity: Capacity,
        runner: TurnRunner,
        clock: Clock,
    ) -> None:
        self._store = store
        self._events = events
        self._owner = owner
        self._capacity = capacity
        self._runner = runner
        self._clock = clock
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopping = False

    def start(self, job: TurnJob, next_sequence: int) -> None:
        """Start a Turn that has been admitted and holds a place."""
        self._owner.pin(job.session.id)
        record = DurableTurnRecord(job.turn, job.epoch, next_sequence, self._store, self._events, self._clock)
        work = self._runner.start(job, record)
        watch = asyncio.create_task(self._watch(job, record, work), name=f"turn-{job.turn.id}")
        self._running[job.turn.id] = watch
        watch.add_done_callback(lambda _: self._running.pop(job.turn.id, None))

    def cancel(self, turn_id: str) -> bool:
        """Ask a Turn to end as CANCELLED; says whether it runs here."""
        return self._runner.cancel(turn_id) or turn_id in self._running

    async def lose(self, sessions: frozenset[str]) -> None:
        """Stop the Turns and close the runtimes of Sessions that another replica has taken."""
        for session_id in sessions:
            await self._runner.forget(session_id)

    async def ended(self, turn_id: str, seconds: float) -> None:
        """Return when a Turn no longer runs here, and after `seconds` at the latest."""
        watch = self._running.get(turn_id)
        if watch is not None:
            await asyncio.wait([watch], timeout=seconds)

    async def stop(self, seconds: float) -> None:
        """Give running Turns `seconds`, then end them as FAILED/SERVER_SHUTDOWN."""
        self._stopping = True
        await self._runner.drain(seconds)
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def _watch(self, job: TurnJob, record: DurableTurnRecord, work: asyncio.Task[None]) -> None:
        try:
            await asyncio.wait([work])
            if not work.cancelled() and (error := work.exception()) is not None:
                _log.error("the runner failed", turn=job.turn.id, exc_info=error)
            await self._make_sure(job.turn, record)
        finally:
            self._events.release(job.turn.id)
            self._owner.unpin(job.session.id)
            self._capacity.release()

    async def _make_sure(self, turn: Turn, record: DurableTurnRecord) -> None:
        while True:
            try:
                if await self._store.events.is_ended(turn.id):
                    return
                _log.error("the runner left a Turn without an end", turn=turn.id)
                await record.end(TurnEnd(TurnState.FAILED, _FAULT))
                return
            except FleetError as error:
                if error.reason == "OWNERSHIP_LOST":
                    return
            except Exception:  # noqa: BLE001  Whatever the database says, the end is stored again later.
                _log.exception("the end of a Turn could not be stored", turn=turn.id)
            if self._stopping:
                return
            await asyncio.sleep(RETRY_SECONDS)
