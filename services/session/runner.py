"""What the service asks of the part that runs Turns, and what that part may ask of the service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from google.protobuf.message import Message

from services.session.turns.spending import BudgetLine, Spent
from services.session.turns.turn import Commit, HistoryRecord, Turn, TurnEnd, TurnJob, TurnState


class TurnRecord(Protocol):
    """The durable record of one running Turn. Every write names the Turn's epoch.

    The methods that write raise FleetError OWNERSHIP_LOST once another replica owns the Session.
    """

    def append(self, kind: str, payload: Message) -> None:
        """Append one event, from any thread; never blocks and never raises.

        Args:
            kind: the field of `TurnEvent.payload`, such as "iteration_started".
            payload: the message of that field; it is copied at once.
        """
        ...

    async def flush(self) -> None:
        """Return when every event appended so far is durable."""
        ...

    async def enter(self, state: TurnState, detail: str = "") -> None:
        """Move the Turn to a later running state, with its `turn_phase` event.

        Raises:
            FleetError: OWNERSHIP_LOST, also when the Turn has ended.
        """
        ...

    async def progress(self, iterations: int, budget: Sequence[BudgetLine]) -> None:
        """Record how far the Turn is, for readers of the Turn itself; raises like `enter`."""
        ...

    async def history(self) -> tuple[HistoryRecord, ...]:
        """Every committed Turn of the Session, oldest first."""
        ...

    async def commit(self, commit: Commit) -> int:
        """Complete the Turn: flush, then state, answer and last events in one transaction.

        The Turn must be SETTLING. Returns the Session's new checkpoint version. Later appends are dropped.

        Raises:
            FleetError: OWNERSHIP_LOST, or COMMIT_FAILED when the database refused; the Turn is then still running.
        """
        ...

    async def end(self, end: TurnEnd) -> None:
        """End the Turn without an answer: flush, then state, error and last event in one transaction.

        Raises:
            FleetError: OWNERSHIP_LOST, also when the Turn has ended.
        """
        ...


class TurnRunner(Protocol):
    """Runs admitted Turns, one asyncio task each, and keeps the resident runtimes."""

    def start(self, job: TurnJob, record: TurnRecord) -> asyncio.Task[None]:
        """Start a Turn. The task ends when the Turn has ended, and never raises for a failed Turn."""
        ...

    def cancel(self, turn_id: str) -> bool:
        """Ask a Turn to end as CANCELLED; says whether it runs here. A commit that has begun wins."""
        ...

    async def forget(self, session_id: str) -> None:
        """Close the resident runtime of a Session that was deleted or archived, or whose ownership is gone."""
        ...

    async def drain(self, seconds: float) -> None:
        """Give running Turns that long, then end them as FAILED/SERVER_SHUTDOWN; close every runtime."""
        ...


class TurnRecovery(Protocol):
    """Cleans up after a replica that is gone."""

    async def clean_up(self, turn: Turn, epoch: int) -> Spent:
        """Abort the Turn's ledger and release its leases under the epoch that took over; bounded in time.

        Returns what is known to have been spent. An unreachable service is logged, not raised: its own expiry
        finishes the work.
        """
        ...


class TurnEngine(Protocol):
    """The whole part that runs Turns, as the composition root holds it."""

    @property
    def runner(self) -> TurnRunner:
        """Runs Turns; usable from `open` on."""
        ...

    @property
    def recovery(self) -> TurnRecovery:
        """Cleans up after replicas that are gone; usable from `open` on."""
        ...

    async def open(self) -> None:
        """Pay one-off costs before the service is ready; bounded in time."""
        ...

    async def close(self) -> None:
        """Close channels and threads, after `drain`; also when `open` failed."""
        ...
