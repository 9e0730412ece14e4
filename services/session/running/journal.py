"""The journal of one running Turn: takes its invocation's events and keeps the account that readers see."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence

from services.common.errors import FleetError
from services.common.logging import get_logger
from services.rlm import events
from services.session.runner import TurnRecord
from services.session.running.turn_events import Payload, to_payload
from services.session.turns.spending import BudgetLine
from services.session.turns.turn import TurnState

_log = get_logger(__name__)

_EXTRACT = "extract"


class TurnJournal:
    """Passes events on to the Turn's record, in order and from any thread, and follows the Turn by them.

    It is the invocation's `EventSink`. What must be written besides events (the FINALIZING state, the number of steps,
    the budget so far) is written by one task on the server's loop, so that no thread ever waits for the database.
    """

    def __init__(
        self, record: TurnRecord, limits: Sequence[BudgetLine], on_ownership_lost: Callable[[FleetError], None]
    ) -> None:
        """Begin with nothing spent; must be made on the server's loop.

        Args:
            record: where everything is written.
            limits: the Turn's budget before anything is spent.
            on_ownership_lost: called on the loop when a write was refused because the Turn has another owner.
        """
        self._record = record
        self._on_ownership_lost = on_ownership_lost
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._lines = {line.dimension: line for line in limits}
        self._iterations = 0
        self._finalizing = ""
        self._told = False
        self._closing = False
        self._changed = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    @property
    def iterations(self) -> int:
        """Steps that have begun."""
        return self._iterations

    @property
    def budget(self) -> tuple[BudgetLine, ...]:
        """The budget as far as it is known here."""
        with self._lock:
            return tuple(self._lines.values())

    def start(self) -> None:
        """Begin to write; the Turn must be RUNNING."""
        self._writer = self._loop.create_task(self._write(), name="turn journal")

    async def close(self) -> None:
        """End the writing; what was seen so far is written first, so that no later state is overtaken by it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._closing = True
            self._changed.set()
            await asyncio.wait([writer])

    def emit(self, event: events.RlmEvent) -> None:
        """Take one event of the invocation, from any thread; never blocks and never raises."""
        self.append(to_payload(event))
        if self._note(event):
            try:
                self._loop.call_soon_threadsafe(self._changed.set)
            except RuntimeError:
                return  # The loop is closed: the process ends, and the event is as durable as it gets.

    def append(self, payload: Payload) -> None:
        """Append one event that is not the invocation's, from any thread."""
        self._record.append(*payload)

    def settled(self, lines: Iterable[BudgetLine]) -> None:
        """The ledger's own lines, which count more than what was seen here."""
        with self._lock:
            self._lines.update({line.dimension: line for line in lines})

    def _note(self, event: events.RlmEvent) -> bool:
        """Follow the Turn; whether something is to be written."""
        with self._lock:
            if isinstance(event, events.IterationStarted):
                self._iterations = max(self._iterations, event.iteration)
                return True
            if isinstance(event, events.BudgetUpdated):
                dimension = str(event.dimension)
                self._lines[dimension] = BudgetLine(dimension, event.used, event.limit)
            elif isinstance(event, events.BudgetExhausted) and event.finalizes:
                self._finalizing = self._finalizing or f"{event.dimension} ran out"
                return True
            elif isinstance(event, events.LmCalled) and event.purpose == _EXTRACT:
                self._finalizing = self._finalizing or "taking the answer from the steps so far"
                return True
        return False

    async def _write(self) -> None:
        """Write whatever changes until closed; a database that fails costs the readers' view, never the Turn."""
        while not self._closing:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._write_once()
            except FleetError as error:
                if error.reason == "OWNERSHIP_LOST":
                    self._on_ownership_lost(error)
                    return
                _log.warning("progress of a Turn was not written", reason=error.reason)
            except Exception:  # noqa: BLE001  Whatever the database says, the Turn goes on.
                _log.warning("progress of a Turn was not written", exc_info=True)

    async def _write_once(self) -> None:
        if self._finalizing and not self._told:
            self._told = True
            await self._record.enter(TurnState.FINALIZING, self._finalizing)
        if not self._closing:
            await self._record.progress(self._iterations, self.budget)
