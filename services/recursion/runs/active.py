"""What this replica runs for one Turn at the moment."""

from __future__ import annotations

import asyncio

from services.common.clock import Clock
from services.common.errors import FleetError
from services.recursion.budget.ledger import Ledger
from services.recursion.children.ports import Broker


class ActiveTurn:
    """A Turn with children on this replica. All of it belongs to one event loop.

    Attributes:
        ledger: the Turn's ledger as it was when its first children were asked for.
        broker: the sandbox broker as this Turn may use it.
        slots: how many children run at one moment.
        running: ids of the children whose rows this replica is about to write.
        admission: held while a call is written down and its run started, so that a repeated call finds the run.
    """

    def __init__(self, ledger: Ledger, broker: Broker, parallel: int, clock: Clock) -> None:
        """Begin.

        Args:
            ledger: the Turn's ledger.
            broker: the sandbox broker as this Turn may use it.
            parallel: how many children may run at one moment.
            clock: tells how much time is left.
        """
        self.ledger = ledger
        self.broker = broker
        self.slots = asyncio.Semaphore(parallel)
        self.admission = asyncio.Lock()
        self.running: set[str] = set()
        self._clock = clock
        self._stopped = asyncio.Event()
        self._cause: FleetError | None = None

    @property
    def cause(self) -> FleetError | None:
        """Why the Turn's children were stopped, or None."""
        return self._cause

    @property
    def seconds_left(self) -> float:
        """Seconds until new work ends, which is every child's deadline; never negative."""
        return max(0.0, (self.ledger.work_deadline - self._clock.now()).total_seconds())

    def stop(self, cause: FleetError) -> None:
        """Stop the Turn's children; the first cause counts."""
        if self._cause is None:
            self._cause = cause
            self._stopped.set()

    async def stopped(self) -> None:
        """Return when the Turn's children were stopped."""
        await self._stopped.wait()
