"""Ends leases whose time is over, whose sandbox is gone, or that another replica asked to end."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from services.common.clock import Clock
from services.common.errors import FleetError
from services.sandbox.leases.lease import Lease, LeaseState
from services.sandbox.leases.lifecycle import Lifecycle
from services.sandbox.store import LeaseStore

SWEEP_SECONDS = 1.0
RECONCILE_SECONDS = 180.0

_log = logging.getLogger(__name__)


class Sweeper:
    """Two loops: one follows the clock, one the sandboxes that end by themselves.

    Args:
        store: The leases.
        lifecycle: Removes sandboxes.
        clock: The time.
        holder: This replica.
        grace: How long other replicas' leases may be over before they are taken for lost.
    """

    def __init__(self, store: LeaseStore, lifecycle: Lifecycle, *, clock: Clock, holder: str, grace: timedelta) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._clock = clock
        self._holder = holder
        self._grace = grace
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin both loops."""
        self._tasks = [
            asyncio.create_task(self._follow_clock(), name="lease sweeper"),
            asyncio.create_task(self._follow_losses(), name="lost sandboxes"),
        ]

    async def stop(self) -> None:
        """End both loops."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _follow_clock(self) -> None:
        reconcile_at = self._clock.monotonic() + RECONCILE_SECONDS
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.sweep()
                if self._clock.monotonic() >= reconcile_at:
                    reconcile_at = self._clock.monotonic() + RECONCILE_SECONDS
                    await self.reconcile()
            except (FleetError, OSError) as error:
                _log.warning("the lease sweep failed: %s", error)

    async def sweep(self) -> None:
        """End this replica's leases that are over or asked to end."""
        now = self._clock.now()
        for lease in await self._store.held(self._holder, (LeaseState.READY, LeaseState.DELETING, LeaseState.LOST)):
            if lease.state is not LeaseState.READY or lease.expire_time <= now:
                await self._lifecycle.remove(lease, "The lease ran out.")

    async def reconcile(self) -> None:
        """Settle rows without sandboxes and sandboxes without rows."""
        for lease in await self._store.held(self._holder, (LeaseState.QUARANTINED,)):
            await self._lifecycle.remove(lease, lease.last_error)
        await self._lifecycle.remove_orphans()
        for lease in await self._store.abandoned(self._holder, self._clock.now() - self._grace):
            await self._quarantine(lease)

    async def _quarantine(self, lease: Lease) -> None:
        """Settle a lease whose replica gives no sign of life; whether its sandbox is gone can't be known here."""
        if lease.state is not LeaseState.DELETING:
            lease = lease.to(LeaseState.DELETING, "The replica that held the sandbox is gone.")
            await self._store.save(lease)
        await self._store.save(lease.to(LeaseState.QUARANTINED))

    async def _follow_losses(self) -> None:
        while True:
            name = await self._lifecycle.lost.get()
            try:
                await self._settle_loss(name)
            except (FleetError, OSError) as error:
                _log.warning("a lost sandbox could not be settled: %s", error)

    async def _settle_loss(self, sandbox: str) -> None:
        for lease in await self._store.held(self._holder, (LeaseState.READY,)):
            if lease.sandbox == sandbox:
                lost = lease.to(LeaseState.LOST, "The sandbox ended.")
                await self._store.save(lost)
                await self._lifecycle.remove(lost, "The sandbox ended.")
