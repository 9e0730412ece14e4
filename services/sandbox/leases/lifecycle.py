"""From intent to absence: makes the sandbox of a lease and removes it, writing each step down first."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.ids import new_id
from services.sandbox.leases.capacity import RETRY_SECONDS, Capacity
from services.sandbox.leases.lease import OPEN, Lease, LeaseState
from services.sandbox.leases.pool import WarmPool
from services.sandbox.providers.base import Kind, SandboxProvider, SandboxSpec
from services.sandbox.runtime import Runtime
from services.sandbox.store import LeaseStore

_log = logging.getLogger(__name__)
_QUARANTINE_PART = 4


class Lifecycle:
    """Makes and removes the sandboxes of one replica.

    Args:
        store: The leases.
        provider: The sandboxes.
        capacity: How many there may be.
        warm: How many of each kind are kept ready.
        clock: The time.
        deployment: Prefix of sandbox names.
        holder: This replica.
        grace: Age at which a sandbox without a lease is removed.
    """

    def __init__(
        self,
        store: LeaseStore,
        provider: SandboxProvider,
        capacity: Capacity,
        warm: dict[Kind, int],
        *,
        clock: Clock,
        deployment: str,
        holder: str,
        grace: timedelta,
    ) -> None:
        self._store = store
        self._provider = provider
        self._capacity = capacity
        self._clock = clock
        self._deployment = deployment
        self._holder = holder
        self._grace = grace
        self._runtimes: dict[str, Runtime] = {}
        self._removing: dict[str, asyncio.Task[Lease]] = {}
        self._quarantined: set[str] = set()
        self.pool = WarmPool(warm, capacity, self.new_sandbox_name, self.make, self._remove_warm)
        self.lost: asyncio.Queue[str] = asyncio.Queue()
        """Names of sandboxes that ended by themselves."""

    def new_sandbox_name(self) -> str:
        """Return a name that no other sandbox has."""
        return f"{self._deployment}-{new_id()}"

    def runtime(self, lease: Lease) -> Runtime:
        """Return the running sandbox of a lease.

        Raises:
            FleetError: `LEASE_NOT_READY` when another replica holds it or it isn't READY yet, `LEASE_LOST`.
        """
        runtime = self._runtimes.get(lease.sandbox)
        if runtime is not None and not runtime.lost and lease.state is LeaseState.READY:
            return runtime
        if lease.holder != self._holder and lease.state is LeaseState.READY:
            raise FleetError("LEASE_NOT_READY", "Another replica holds the sandbox.", {"endpoint": lease.endpoint})
        if lease.state in (LeaseState.INTENT, LeaseState.CREATING):
            raise FleetError("LEASE_NOT_READY", "The sandbox is being made.")
        raise FleetError("LEASE_LOST", lease.last_error or "The sandbox is gone.")

    async def make(self, spec: SandboxSpec) -> Runtime:
        """Make and start a sandbox.

        Raises:
            FleetError: It can't be made; nothing is left of it.
        """
        info = await self._provider.create(spec)
        try:
            channel = await self._provider.connect(spec.name)
        except BaseException:
            await self._provider.destroy(spec.name)
            raise
        runtime = Runtime(info, channel, lambda ended: self.lost.put_nowait(ended.info.name))
        self._runtimes[spec.name] = runtime
        return runtime

    async def _remove_warm(self, runtime: Runtime) -> bool:
        return await self._remove_sandbox(runtime.info.name, "The sandbox is no longer needed.")

    async def _remove_sandbox(self, name: str, reason: str) -> bool:
        runtime = self._runtimes.pop(name, None)
        if runtime is not None:
            await runtime.close(reason)
        try:
            await self._provider.destroy(name)
        except (FleetError, OSError) as error:
            _log.warning("sandbox %s could not be removed: %s", name, error)
        return await self._provider.confirm_absent(name)

    async def create(self, lease: Lease, ttl: timedelta, wait: float) -> Lease:
        """Wait for capacity, then write the lease down and make its sandbox.

        Args:
            lease: In state INTENT, not written yet; its sandbox's name is filled in here.
            ttl: How long it lives, from the moment at which it can be used.
            wait: Seconds to wait for capacity.

        Returns:
            The READY lease; or the stored one when another replica was faster with the same request.

        Raises:
            FleetError: `SANDBOX_CAPACITY`, `SANDBOX_START_FAILED`, `SANDBOX_ISOLATION_UNAVAILABLE`; the request may
                be made again.
        """
        self._refuse_when_quarantined()
        runtime = self.pool.take(lease.kind, lease.workspace)
        if runtime is None:
            await self._slot(lease.kind, wait)
        lease = replace(
            lease, sandbox=runtime.info.name if runtime else self.new_sandbox_name(), warm=runtime is not None
        )
        try:
            if not await self._store.insert(lease):
                return await self._give_way(lease)
            return await self._make_ready(await self._step(lease, LeaseState.CREATING), runtime, ttl)
        except BaseException as error:
            message = error.message if isinstance(error, FleetError) else "The request was given up."
            await asyncio.shield(self._fail(lease, message))
            raise

    async def _make_ready(self, lease: Lease, runtime: Runtime | None, ttl: timedelta) -> Lease:
        if runtime is None:
            workspace = lease.workspace if lease.kind is Kind.ROOT else None
            runtime = await self.make(SandboxSpec(lease.sandbox, lease.kind, workspace))
        ready = replace(
            lease.to(LeaseState.READY),
            isolation=runtime.info.isolation,
            mount_root=runtime.info.mount_root,
            expire_time=self._clock.now() + ttl,
        )
        if not await self._store.save(ready):
            raise FleetError("LEASE_LOST", "The lease was released while its sandbox was being made.")
        return ready

    async def _give_way(self, lease: Lease) -> Lease:
        """Return the lease that another replica made for the same request."""
        await self._remove_sandbox(lease.sandbox, "The sandbox is not needed.")
        self._capacity.give_back(lease.kind)
        return await self._store.by_request(lease.workspace, lease.request_id or "") or lease

    async def _fail(self, lease: Lease, message: str) -> None:
        await self._store.forget_request(lease.id)
        await self.remove(lease, message)
        # A removal that ran beside the creation may have been too early to see the sandbox.
        await self._remove_sandbox(lease.sandbox, message)

    async def _slot(self, kind: Kind, wait: float) -> None:
        """Take a slot, giving up what nobody uses when there is none."""
        if self._capacity.try_take(kind):
            return
        waiting = asyncio.create_task(self._capacity.take(kind, wait), name="wait for a sandbox")
        try:
            if not await self.pool.give_up_one(kind):
                await self._reclaim_idle(kind)
            await asyncio.shield(waiting)
        except BaseException:
            waiting.cancel()
            await asyncio.wait((waiting,))
            if not waiting.cancelled() and waiting.exception() is None:
                self._capacity.give_back(kind)
            raise

    async def _reclaim_idle(self, kind: Kind) -> None:
        """End the lease that has been idle for longest."""
        ready = await self._store.held(self._holder, [LeaseState.READY])
        idle = [lease for lease in ready if lease.kind is kind and lease.idle_since is not None]
        if idle:
            oldest = min(idle, key=lambda lease: lease.idle_since or lease.create_time)
            await self.remove(oldest, "The sandbox was idle and its place was needed.")

    def _refuse_when_quarantined(self) -> None:
        total = sum(self._capacity.limit(kind) for kind in Kind)
        if len(self._quarantined) * _QUARANTINE_PART > total:
            raise FleetError(
                "SANDBOX_CAPACITY",
                "Too many sandboxes could not be removed.",
                {"quarantined": str(len(self._quarantined))},
                retry_after=RETRY_SECONDS,
            )

    async def _step(self, lease: Lease, state: LeaseState, error: str = "") -> Lease:
        following = lease.to(state, error)
        await self._store.save(following)
        return following

    async def remove(self, lease: Lease, reason: str) -> Lease:
        """Remove a lease's sandbox; callers at the same time share one removal.

        Args:
            lease: Held by this replica, in any state but ABSENT.
            reason: Why, in public words.

        Returns:
            The ABSENT or QUARANTINED lease.
        """
        task = self._removing.get(lease.id)
        if task is None:
            task = asyncio.create_task(self._remove(lease, reason), name=f"remove {lease.id}")
            self._removing[lease.id] = task
            task.add_done_callback(lambda _: self._removing.pop(lease.id, None))
        # A caller that gives up must not leave a sandbox half removed.
        return await asyncio.shield(task)

    async def _remove(self, lease: Lease, reason: str) -> Lease:
        lease = await self._store.get(lease.id) or lease
        if lease.state is LeaseState.ABSENT:
            return lease
        if lease.state is not LeaseState.DELETING:
            lease = await self._step(lease, LeaseState.DELETING, reason)
        if await self._remove_sandbox(lease.sandbox, reason):
            self._quarantined.discard(lease.id)
            lease = await self._step(lease, LeaseState.ABSENT)
            self._capacity.give_back(lease.kind)
        else:
            self._quarantined.add(lease.id)
            lease = await self._step(lease, LeaseState.QUARANTINED, "The sandbox's removal can't be confirmed.")
            _log.error("sandbox %s of lease %s is quarantined", lease.sandbox, lease.id)
        return lease

    async def settle_former(self) -> None:
        """At start: end what an earlier process of this replica left, then every other sandbox of it."""
        for lease in await self._store.held(self._holder, OPEN):
            self._capacity.occupy(lease.kind)
            await self.remove(lease, "The broker was restarted.")
        await self.remove_orphans(timedelta())

    async def remove_orphans(self, age: timedelta | None = None) -> int:
        """Remove sandboxes without a lease.

        Args:
            age: Only those at least so old; the grace by default.

        Returns:
            How many were found.
        """
        limit = self._clock.now() - (self._grace if age is None else age)
        leased = {lease.sandbox for lease in await self._store.held(self._holder, OPEN)}
        found = 0
        for sandbox in await self._provider.list_owned():
            if sandbox.name not in leased and sandbox.name not in self._runtimes and sandbox.create_time <= limit:
                found += 1
                _log.warning("removing orphaned sandbox %s", sandbox.name)
                await self._remove_sandbox(sandbox.name, "The sandbox has no lease.")
        return found

    async def stop(self) -> None:
        """Remove every sandbox of this replica."""
        await self.pool.stop()
        for lease in await self._store.held(self._holder, OPEN):
            await self.remove(lease, "The broker was shut down.")
        for name in list(self._runtimes):
            await self._remove_sandbox(name, "The broker was shut down.")
