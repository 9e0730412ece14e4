"""The replica's heartbeat: it holds its children's rows, and finishes what dead replicas left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.logging import get_logger
from services.recursion.budget.ledger import Ledger, LedgerState
from services.recursion.budget.settlement import Settlement, aborted
from services.recursion.children.cleanup import Cleaner
from services.recursion.children.outcomes import ChildStatus, Cleanup, Failure, Outcome
from services.recursion.children.ports import Brokers
from services.recursion.children.states import Child, ChildState
from services.recursion.runs.live import Runs
from services.recursion.store.children import ChildStore, Claim
from services.recursion.store.ledgers import LedgerStore

_BATCH = 100

_log = get_logger(__name__)


class Reaper:
    """Renews, takes over and aborts, once every heartbeat."""

    def __init__(
        self,
        *,
        owner: str,
        ledgers: LedgerStore,
        children: ChildStore,
        runs: Runs,
        settlement: Settlement,
        cleaner: Cleaner,
        brokers: Brokers,
        clock: Clock,
        lease_seconds: float,
        heartbeat_seconds: float,
        grace_seconds: float,
    ) -> None:
        """Begin without beating.

        Args:
            owner: this replica's id.
            ledgers: the books.
            children: the children's rows.
            runs: the children on this replica.
            settlement: aborts ledgers.
            cleaner: removes sandboxes.
            brokers: gives each Turn its broker.
            clock: tells the time.
            lease_seconds: how long a row is held without renewal.
            heartbeat_seconds: pause between beats.
            grace_seconds: how long after its deadline a ledger may stay open.
        """
        self._owner = owner
        self._ledgers = ledgers
        self._children = children
        self._runs = runs
        self._settlement = settlement
        self._cleaner = cleaner
        self._brokers = brokers
        self._clock = clock
        self._lease = timedelta(seconds=lease_seconds)
        self._pause = heartbeat_seconds
        self._grace = timedelta(seconds=grace_seconds)

    def claim(self) -> Claim:
        """A hold on rows from here on."""
        now = self._clock.now()
        return Claim(self._owner, now, now + self._lease)

    async def run(self) -> None:
        """Beat until cancelled; a beat that fails is logged, and the next one tries again."""
        while True:
            try:
                await self.beat()
            except Exception:  # noqa: BLE001 - the heart must not stop; what failed is still written down
                _log.exception("heartbeat failed")
            await asyncio.sleep(self._pause)

    async def beat(self) -> None:
        """Do once what a heartbeat does."""
        await self._renew()
        await self._settle_orphans(await self._children.take_over(self.claim(), _BATCH))
        for child in await self._children.cleaning(self._owner):
            await self._clean(child)
        for turn in await self._ledgers.overdue(self._clock.now() - self._grace, _BATCH):
            _log.warning("ledger is past its deadline", turn=turn)
            await self._settlement.abort(turn, None)
        await self._follow_ledgers()

    async def take_all(self) -> None:
        """Take over every live child at once: for a database that nobody else can be using."""
        while taken := await self._children.take_over(self.claim(), _BATCH, expired_only=False):
            await self._settle_orphans(taken)

    async def _renew(self) -> None:
        before = self._runs.children()
        held = await self._children.renew(self.claim(), before)
        self._runs.lose(before.difference(held))

    async def _settle_orphans(self, children: Sequence[Child]) -> None:
        for child in children:
            try:
                await self._settle_orphan(child)
            except FleetError as error:
                # Its hold runs out again, and then it is tried again.
                _log.warning("orphan not settled", child=child.id, turn=child.turn, reason=error.reason)

    async def _settle_orphan(self, child: Child) -> None:
        """Give a child whose replica is gone its outcome, and see to its sandbox."""
        _log.warning("child of a lost replica", child=child.id, turn=child.turn, state=child.state.value)
        if child.outcome is None:
            started = child.state is not ChildState.QUEUED
            outcome = Outcome(
                status=ChildStatus.FAILED if started else ChildStatus.NOT_STARTED,
                child_id=child.id if started else "",
                cleanup=Cleanup.PENDING if started else Cleanup.NONE,
                failure=Failure("unavailable", "The replica that ran the child is gone."),
            )
            await self._children.finish(child, outcome, gone=not started, refund=not started)
            if not started:
                return
            child = replace(child, state=ChildState.CLEANING, outcome=outcome)
        await self._clean(child)

    async def _clean(self, child: Child) -> None:
        if child.outcome is None:
            return
        ledger = await self._ledgers.get(child.turn)
        broker = self._brokers.of(ledger.workspace, ledger.session, ledger.turn)
        self._cleaner.begin(broker, child, child.outcome)

    async def _follow_ledgers(self) -> None:
        """Stop the children of Turns that were aborted on another replica, and drop ended Turns."""
        for turn in self._runs.turns():
            ledger = await self._ledger(turn)
            if ledger is None or ledger.state is LedgerState.ABORTED:
                self._runs.stop_turn(turn, aborted())
            if ledger is None or ledger.state.ended:
                self._runs.forget(turn)

    async def _ledger(self, turn: str) -> Ledger | None:
        try:
            return await self._ledgers.get(turn)
        except FleetError as error:
            if error.reason != "LEDGER_NOT_FOUND":
                raise
            return None
