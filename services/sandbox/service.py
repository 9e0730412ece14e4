"""Use cases of the broker."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import timedelta

from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.ids import new_id
from services.common.request_context import Principal
from services.sandbox.leases.lease import UNUSABLE, Lease, LeaseState, Owner
from services.sandbox.leases.lifecycle import Lifecycle
from services.sandbox.providers.base import Kind
from services.sandbox.runtime import Runtime
from services.sandbox.store import LeaseStore

_ID = re.compile(r"[0-9a-z]{1,64}")
_REMOTE_RELEASE_SECONDS = 15.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class AcquireRequest:
    """A lease that is wanted.

    Attributes:
        request_id: Chosen by the caller; the same one gets the same lease.
        kind: What the sandbox is for.
        owner: Whom it works for.
        ttl: How long it lives unless renewed.
        wait: How long to wait for capacity; None for the policy's time.
    """

    request_id: str
    kind: Kind
    owner: Owner
    ttl: timedelta
    wait: timedelta | None


@dataclass
class _Acquisition:
    task: asyncio.Task[Lease]
    callers: int = 0


class SandboxService:
    """Leases of one replica.

    Args:
        store: The leases.
        lifecycle: Makes and removes sandboxes.
        clock: The time.
        holder: This replica.
        queue_time: How long a request waits for capacity by default.
    """

    def __init__(
        self, store: LeaseStore, lifecycle: Lifecycle, *, clock: Clock, holder: str, queue_time: timedelta
    ) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._clock = clock
        self._holder = holder
        self._queue_time = queue_time
        self._acquisitions: dict[tuple[str, str], _Acquisition] = {}
        self.endpoint = ""
        """Address of this replica, once it is known."""

    async def acquire(self, caller: Principal, request: AcquireRequest) -> Lease:
        """Return a READY lease; the same request id returns the same one.

        Raises:
            FleetError: `LEASE_CONFLICT` when the id belongs to another request, `LEASE_LOST` when its lease has
                ended, `SANDBOX_CAPACITY`, `SANDBOX_START_FAILED`, `SANDBOX_ISOLATION_UNAVAILABLE`,
                `PERMISSION_DENIED` when a child asks for a Root's sandbox.
        """
        if caller.depth and request.kind is not Kind.CHILD:
            raise FleetError("PERMISSION_DENIED", "A child can't have a Root's sandbox.")
        key = (caller.workspace, request.request_id)
        running = self._acquisitions.get(key)
        if running is None:
            task = asyncio.create_task(self._acquire(caller, request), name=f"acquire {request.request_id}")
            running = self._acquisitions[key] = _Acquisition(task)
            task.add_done_callback(lambda _: self._acquisitions.pop(key, None))
        lease = await self._share(running)
        if not lease.same_request(request.kind, request.owner):
            raise FleetError("LEASE_CONFLICT", "The request id belongs to a lease with other parameters.")
        if lease.state in UNUSABLE:
            raise FleetError("LEASE_LOST", lease.last_error or "The lease of this request has ended.")
        return lease

    async def _share(self, acquisition: _Acquisition) -> Lease:
        """Wait for a lease that others may wait for too; when nobody does any more, it is given up."""
        acquisition.callers += 1
        try:
            return await asyncio.shield(acquisition.task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and not current.cancelling():
                raise FleetError("LEASE_LOST", "The lease was released while its sandbox was being made.") from None
            if acquisition.callers == 1 and not acquisition.task.done():
                acquisition.task.cancel()
                await asyncio.wait((acquisition.task,))
            raise
        finally:
            acquisition.callers -= 1

    async def _acquire(self, caller: Principal, request: AcquireRequest) -> Lease:
        stored = await self._store.by_request(caller.workspace, request.request_id)
        if stored is not None:
            return stored
        now = self._clock.now()
        lease = Lease(
            id=new_id(),
            request_id=request.request_id,
            kind=request.kind,
            owner=request.owner,
            workspace=caller.workspace,
            sandbox="",
            holder=self._holder,
            endpoint=self.endpoint,
            expire_time=now + request.ttl,
            create_time=now,
        )
        wait = self._queue_time if request.wait is None else request.wait
        return await self._lifecycle.create(lease, request.ttl, wait.total_seconds())

    async def get(self, caller: Principal, lease_id: str) -> Lease:
        """Return a lease of the caller's workspace.

        Raises:
            FleetError: `LEASE_NOT_FOUND`.
        """
        lease = await self._store.get(lease_id)
        if lease is None or lease.workspace != caller.workspace:
            raise FleetError("LEASE_NOT_FOUND", "There is no such lease.", {"lease": f"leases/{lease_id}"})
        return lease

    async def renew(
        self, caller: Principal, lease_id: str, epoch: int, ttl: timedelta, *, idle: bool, turn: str
    ) -> Lease:
        """Prolong a lease.

        Raises:
            FleetError: `LEASE_NOT_FOUND`, `STALE_EPOCH`, `LEASE_LOST`, `LEASE_NOT_READY`.
        """
        lease = await self.get(caller, lease_id)
        _check_epoch(lease, epoch)
        if lease.state is LeaseState.READY:
            renewed = lease.renewed(self._clock.now(), ttl, idle=idle, turn=turn)
            if await self._store.update_ready(renewed):
                return renewed
            lease = await self.get(caller, lease_id)
        if lease.state in UNUSABLE:
            raise FleetError("LEASE_LOST", lease.last_error or "The lease has ended.")
        raise FleetError("LEASE_NOT_READY", "The sandbox is being made.")

    async def page(
        self, caller: Principal, *, session: str, turn: str, include_absent: bool, token: str, size: int
    ) -> tuple[list[Lease], str]:
        """Return a page of the caller's leases, latest first, and the next page's token, or an empty one.

        Raises:
            FleetError: `PAGE_TOKEN_INVALID`.
        """
        if token and not _ID.fullmatch(token):
            raise FleetError("PAGE_TOKEN_INVALID", "The page token was not made by this list.")
        leases = await self._store.page(
            caller.workspace, session=session, turn=turn, include_absent=include_absent, before_id=token, size=size + 1
        )
        return leases[:size], leases[size - 1].id if len(leases) > size else ""

    async def release(self, caller: Principal, lease_id: str) -> Lease:
        """End a lease and return it: ABSENT when its sandbox is confirmed gone.

        Raises:
            FleetError: `LEASE_NOT_FOUND`.
        """
        lease = await self.get(caller, lease_id)
        if lease.state is LeaseState.ABSENT:
            return lease
        if lease.holder == self._holder:
            await self._give_up(caller.workspace, lease.request_id)
            return await self._lifecycle.remove(lease, "The lease was released.")
        return await self._ask_holder(caller, lease)

    async def _give_up(self, workspace: str, request_id: str | None) -> None:
        """Stop making a lease's sandbox, if that goes on."""
        running = self._acquisitions.get((workspace, request_id or ""))
        if running is not None:
            running.task.cancel()
            await asyncio.wait((running.task,))

    async def _ask_holder(self, caller: Principal, lease: Lease) -> Lease:
        """Write the wish down and wait until the replica that has the sandbox has followed it."""
        if lease.state not in (LeaseState.DELETING, LeaseState.QUARANTINED):
            await self._store.save(lease.to(LeaseState.DELETING, "The lease was released."))
        deadline = self._clock.monotonic() + _REMOTE_RELEASE_SECONDS
        while lease.state is not LeaseState.ABSENT and self._clock.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
            lease = await self.get(caller, lease.id)
        return lease

    async def usable(self, caller: Principal, lease_id: str, epoch: int) -> tuple[Lease, Runtime]:
        """Return a READY lease and its sandbox.

        Raises:
            FleetError: `LEASE_NOT_FOUND`, `STALE_EPOCH`, `LEASE_LOST`, `LEASE_NOT_READY`.
        """
        lease = await self.get(caller, lease_id)
        _check_epoch(lease, epoch)
        return lease, self._lifecycle.runtime(lease)


def _check_epoch(lease: Lease, epoch: int) -> None:
    if epoch != lease.epoch:
        raise FleetError("STALE_EPOCH", f"The lease's epoch is {lease.epoch}.", {"epoch": str(lease.epoch)})
