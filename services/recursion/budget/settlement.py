"""The end of a Turn's books: settled when every child has ended and every sandbox is confirmed gone, or aborted."""

from __future__ import annotations

from services.common.clock import Clock
from services.common.errors import FleetError
from services.recursion.budget.changes import Changes
from services.recursion.budget.ledger import Ledger, LedgerState
from services.recursion.runs.live import Runs
from services.recursion.store.ledgers import LedgerStore

_LOOK_SECONDS = 0.25
"""How soon the end of another replica's child is seen."""


class Settlement:
    """Settles and aborts ledgers."""

    def __init__(self, ledgers: LedgerStore, runs: Runs, changes: Changes, clock: Clock, seconds: float) -> None:
        """Begin.

        Args:
            ledgers: the books.
            runs: the children on this replica.
            changes: tells of their ends.
            clock: tells the time.
            seconds: how long a settlement waits at most.
        """
        self._ledgers = ledgers
        self._runs = runs
        self._changes = changes
        self._clock = clock
        self._seconds = seconds

    async def settle(self, turn: str, patience: float | None) -> Ledger:
        """Stop granting and wait until nothing of the Turn's children is left; may be repeated.

        Args:
            turn: the Turn's id.
            patience: seconds that the caller waits, or None.

        Raises:
            FleetError: LEDGER_NOT_FOUND, LEDGER_CLOSED when it was aborted, or CHILDREN_UNRESOLVED with their ids.
        """
        ledger = await self._ledgers.begin_settling(turn)
        left = (ledger.deadline - self._clock.now()).total_seconds()
        wait = min(self._seconds, left, self._seconds if patience is None else patience)
        until = self._clock.monotonic() + wait
        while True:
            ledger = await self._ledgers.settle(turn, self._clock.now())
            if ledger.state is LedgerState.SETTLED:
                self._runs.forget(turn)
                return ledger
            remaining = until - self._clock.monotonic()
            if remaining <= 0:
                raise await self._unresolved(turn)
            await self._changes.wait(turn, min(remaining, _LOOK_SECONDS))

    async def abort(self, turn: str, epoch: int | None) -> Ledger:
        """Stop granting and cancel the Turn's children; the reaper and the clean-up finish what is left.

        Raises:
            FleetError: LEDGER_NOT_FOUND, or OWNERSHIP_LOST for an epoch older than the ledger's.
        """
        ledger = await self._ledgers.abort(turn, epoch, self._clock.now())
        if ledger.state is LedgerState.ABORTED:
            self._runs.stop_turn(turn, aborted())
            self._changes.notify(turn)
            self._runs.forget(turn)
        return ledger

    async def _unresolved(self, turn: str) -> FleetError:
        children = await self._ledgers.unresolved(turn)
        message = f"{len(children)} children have no confirmed end."
        return FleetError("CHILDREN_UNRESOLVED", message, {"turn": turn, "children": ",".join(children)})


def aborted() -> FleetError:
    """Why the children of an aborted Turn were stopped."""
    return FleetError("TURN_CANCELLED", "The Turn was ended before its children were.")
