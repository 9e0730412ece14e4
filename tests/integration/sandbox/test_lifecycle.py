"""Leases from intent to absence, with a provider that fails where it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from services.common import migrations
from services.common.database import Database
from services.common.errors import FleetError
from services.common.request_context import Principal
from services.sandbox.leases.capacity import Capacity
from services.sandbox.leases.lease import Lease, LeaseState, Owner
from services.sandbox.leases.lifecycle import Lifecycle
from services.sandbox.leases.sweeper import Sweeper
from services.sandbox.providers.base import Kind, SandboxSpec
from services.sandbox.service import AcquireRequest, SandboxService
from services.sandbox.store import LeaseStore
from tests.fakes.clock import FakeClock
from tests.fakes.sandbox_provider import FakeProvider

CALLER = Principal("w", "tester")


class Broker:
    """One replica, put together without a server."""

    def __init__(
        self, store: LeaseStore, *, roots: int = 2, children: int = 2, warm: int = 0, holder: str = "me"
    ) -> None:
        self.store = store
        self.clock = FakeClock()
        self.provider = FakeProvider()
        self.capacity = Capacity({Kind.ROOT: roots, Kind.CHILD: children})
        self.lifecycle = Lifecycle(
            store,
            self.provider,
            self.capacity,
            {Kind.ROOT: warm, Kind.CHILD: warm},
            clock=self.clock,
            deployment="test",
            holder=holder,
            grace=timedelta(seconds=120),
        )
        self.sweeper = Sweeper(store, self.lifecycle, clock=self.clock, holder=holder, grace=timedelta(seconds=120))
        self.service = SandboxService(
            store, self.lifecycle, clock=self.clock, holder=holder, queue_time=timedelta(seconds=0.05)
        )

    async def acquire(self, request_id: str = "r1", kind: Kind = Kind.ROOT, **options: Any) -> Lease:
        owner = options.pop("owner", Owner("s", "t"))
        request = AcquireRequest(request_id, kind, owner, timedelta(seconds=60), options.pop("wait", None))
        return await self.service.acquire(options.pop("caller", CALLER), request)

    async def state(self, lease: Lease) -> LeaseState:
        return (await self.service.get(CALLER, lease.id)).state


Make = Callable[..., Broker]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    url = f"sqlite:///{tmp_path / 'sandbox.db'}"
    await migrations.upgrade("sandbox", url)
    database = Database(url)
    brokers: list[Broker] = []

    def build(**options: Any) -> Broker:
        brokers.append(Broker(LeaseStore(database), **options))
        return brokers[-1]

    yield build
    for broker in brokers:
        broker.provider.undeletable.clear()
        await broker.sweeper.stop()
        await broker.lifecycle.stop()
        assert broker.provider.sandboxes == {}
    await database.close()


async def _refused(reason: str, call: Any) -> FleetError:
    with pytest.raises(FleetError) as error:
        await call
    assert error.value.reason == reason
    return error.value


async def test_acquire_and_release(make: Make) -> None:
    broker = make()
    lease = await broker.acquire()
    assert (lease.state, lease.isolation, lease.mount_root) == (LeaseState.READY, "bubblewrap", "/workspace")
    assert await broker.acquire() == lease
    assert broker.provider.created == [SandboxSpec(lease.sandbox, Kind.ROOT, "w")]
    released = await broker.service.release(CALLER, lease.id)
    assert released.state is LeaseState.ABSENT
    assert await broker.service.release(CALLER, lease.id) == released
    assert broker.capacity.used(Kind.ROOT) == 0
    await _refused("LEASE_LOST", broker.acquire())
    await _refused("LEASE_LOST", broker.service.renew(CALLER, lease.id, 1, timedelta(1), idle=False, turn=""))


async def test_one_request_makes_one_sandbox(make: Make) -> None:
    broker = make()
    broker.provider.hold_creation = asyncio.Event()
    waiting = [asyncio.create_task(broker.acquire()) for _ in range(3)]
    await _until(lambda: bool(broker.provider.created))
    waiting[0].cancel()
    broker.provider.hold_creation.set()
    leases = await asyncio.gather(*waiting[1:])
    assert leases[0] == leases[1]
    assert len(broker.provider.created) == 1
    await _refused("LEASE_CONFLICT", broker.acquire(kind=Kind.CHILD))
    await _refused("LEASE_CONFLICT", broker.acquire(owner=Owner("another")))
    assert (await broker.acquire(owner=Owner("s", "next turn"))).id == leases[0].id


async def test_children_get_no_roots(make: Make) -> None:
    child = Principal("w", "child", "s", "t", depth=1)
    broker = make()
    await _refused("PERMISSION_DENIED", broker.acquire(caller=child))
    assert (await broker.acquire("c", Kind.CHILD, caller=child)).mount_root == "/scratch"
    assert broker.provider.created[0].workspace is None


async def test_other_workspaces_see_nothing(make: Make) -> None:
    broker = make()
    lease = await broker.acquire()
    other = Principal("other", "x")
    await _refused("LEASE_NOT_FOUND", broker.service.get(other, lease.id))
    await _refused("LEASE_NOT_FOUND", broker.service.release(other, lease.id))
    assert await broker.service.page(other, session="", turn="", include_absent=True, token="", size=5) == ([], "")
    await _refused("STALE_EPOCH", broker.service.usable(CALLER, lease.id, 2))
    assert (await broker.acquire(caller=other)).id != lease.id


async def test_pages(make: Make) -> None:
    broker = make(children=5)
    ids = [(await broker.acquire(f"c{number}", Kind.CHILD)).id for number in range(5)]
    found, token = [], ""
    while True:
        page, token = await broker.service.page(CALLER, session="s", turn="", include_absent=False, token=token, size=2)
        found += [lease.id for lease in page]
        if not token:
            break
    assert found == ids[::-1]
    page_of = broker.service.page(CALLER, session="", turn="", include_absent=False, token="../x", size=2)
    await _refused("PAGE_TOKEN_INVALID", page_of)


async def test_a_start_that_fails_may_be_tried_again(make: Make) -> None:
    broker = make(roots=1)
    broker.provider.fail_creation = FleetError("SANDBOX_START_FAILED", "no")
    await _refused("SANDBOX_START_FAILED", broker.acquire())
    assert broker.capacity.used(Kind.ROOT) == 0
    broker.provider.fail_creation = None
    assert (await broker.acquire()).state is LeaseState.READY


async def test_capacity_is_apart_for_roots_and_children(make: Make) -> None:
    broker = make(roots=1, children=1)
    first = await broker.acquire()
    refused = await _refused("SANDBOX_CAPACITY", broker.acquire("r2"))
    assert refused.retry_after
    await broker.acquire("c1", Kind.CHILD)
    waiting = asyncio.create_task(broker.acquire("r3", wait=timedelta(seconds=10)))
    await _until(lambda: broker.capacity.waiting(Kind.ROOT) == 1)
    await broker.service.release(CALLER, first.id)
    assert (await waiting).state is LeaseState.READY


async def test_a_warm_sandbox_in_the_making_gives_way_to_who_waits(make: Make) -> None:
    broker = make(roots=1, warm=1)
    broker.provider.hold_creation = asyncio.Event()
    broker.lifecycle.pool.start("w")
    await _until(lambda: bool(broker.provider.created))
    waiting = asyncio.create_task(broker.acquire(wait=timedelta(seconds=10)))
    await _until(lambda: broker.capacity.waiting(Kind.ROOT) == 1)
    broker.provider.hold_creation.set()
    assert (await waiting).state is LeaseState.READY


async def test_a_caller_that_gives_up_leaves_nothing(make: Make) -> None:
    broker = make()
    broker.provider.hold_creation = asyncio.Event()
    waiting = asyncio.create_task(broker.acquire())
    await _until(lambda: bool(broker.provider.created))
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert waiting.cancelled()
    assert broker.capacity.used(Kind.ROOT) == 0
    broker.provider.hold_creation.set()
    assert (await broker.acquire()).state is LeaseState.READY


async def test_release_while_the_sandbox_is_made(make: Make) -> None:
    broker = make()
    broker.provider.hold_creation = asyncio.Event()
    waiting = asyncio.create_task(broker.acquire())
    await _until(lambda: bool(broker.provider.created))
    (lease,), _ = await broker.service.page(CALLER, session="s", turn="", include_absent=False, token="", size=5)
    assert lease.state is LeaseState.CREATING
    await _refused("LEASE_NOT_READY", broker.service.usable(CALLER, lease.id, 1))
    assert (await broker.service.release(CALLER, lease.id)).state is LeaseState.ABSENT
    await _refused("LEASE_LOST", waiting)
    assert broker.capacity.used(Kind.ROOT) == 0


async def test_under_pressure_idle_leases_go_first(make: Make) -> None:
    broker = make(roots=2)
    old, new = await broker.acquire("old"), await broker.acquire("new")
    await _refused("SANDBOX_CAPACITY", broker.acquire("r3"))
    for lease in (old, new):
        broker.clock.advance(1)
        await broker.service.renew(CALLER, lease.id, 1, timedelta(seconds=60), idle=True, turn="")
    assert (await broker.acquire("r4")).state is LeaseState.READY
    assert await broker.state(old) is LeaseState.ABSENT
    assert await broker.state(new) is LeaseState.READY
    lost = await _refused("LEASE_LOST", broker.service.usable(CALLER, old.id, 1))
    assert "idle" in lost.message


async def test_leases_run_out_unless_renewed(make: Make) -> None:
    broker = make()
    lease, kept = await broker.acquire("a"), await broker.acquire("b")
    broker.clock.advance(59)
    await broker.service.renew(CALLER, kept.id, 1, timedelta(seconds=60), idle=False, turn="t2")
    broker.clock.advance(2)
    await broker.sweeper.sweep()
    assert await broker.state(lease) is LeaseState.ABSENT
    assert await broker.state(kept) is LeaseState.READY
    assert (await broker.service.get(CALLER, kept.id)).owner.turn == "t2"


async def test_a_sandbox_that_ends_by_itself(make: Make) -> None:
    broker = make()
    broker.sweeper.start()
    lease = await broker.acquire()
    broker.provider.sandboxes[lease.sandbox].ended.set()
    await _until_async(lambda: broker.state(lease), LeaseState.ABSENT)
    assert (await broker.service.get(CALLER, lease.id)).last_error == "The sandbox ended."
    assert broker.capacity.used(Kind.ROOT) == 0


async def test_what_can_not_be_removed_is_quarantined(make: Make) -> None:
    broker = make(roots=3, children=1)
    lease, second = await broker.acquire("a"), await broker.acquire("b")
    broker.provider.undeletable.add("*")
    assert (await broker.service.release(CALLER, lease.id)).state is LeaseState.QUARANTINED
    assert broker.capacity.used(Kind.ROOT) == 2
    assert (await broker.acquire("c")).state is LeaseState.READY
    assert (await broker.service.release(CALLER, second.id)).state is LeaseState.QUARANTINED
    await _refused("SANDBOX_CAPACITY", broker.acquire("d", Kind.CHILD))
    broker.provider.undeletable.clear()
    await broker.sweeper.reconcile()
    assert await broker.state(lease) is LeaseState.ABSENT
    assert broker.capacity.used(Kind.ROOT) == 1
    assert (await broker.service.get(CALLER, lease.id)).delete_attempts == 2
    assert (await broker.acquire("d", Kind.CHILD)).state is LeaseState.READY


async def test_a_restart_settles_what_was_left(make: Make) -> None:
    before = make()
    lease = await before.acquire()
    after = make()
    after.provider.sandboxes = before.provider.sandboxes
    await after.provider.create(SandboxSpec("test-orphan", Kind.CHILD))
    await after.lifecycle.settle_former()
    assert await after.state(lease) is LeaseState.ABSENT
    assert after.provider.sandboxes == {}
    assert after.capacity.used(Kind.ROOT) == 0


async def test_orphans_are_removed_after_the_grace(make: Make) -> None:
    broker = make()
    lease = await broker.acquire()
    await broker.provider.create(SandboxSpec("test-orphan", Kind.CHILD))
    broker.provider.create_time = broker.clock.now()
    assert await broker.lifecycle.remove_orphans() == 0
    broker.clock.advance(121)
    assert await broker.lifecycle.remove_orphans() == 1
    assert list(broker.provider.sandboxes) == [lease.sandbox]


async def test_warm_sandboxes(make: Make) -> None:
    broker = make(roots=2, children=2, warm=1)
    broker.lifecycle.pool.start("w")
    await _until(lambda: len(broker.provider.created) == 2)
    first = await broker.acquire()
    assert first.warm
    await _until(lambda: broker.lifecycle.pool.count(Kind.ROOT) == 1)
    assert broker.capacity.used(Kind.ROOT) == 2
    other = Principal("other", "x")
    cold = await broker.acquire("o", caller=other)
    assert not cold.warm
    assert broker.capacity.used(Kind.ROOT) == 2
    child = await broker.acquire("c", Kind.CHILD)
    assert child.warm
    await _until(lambda: broker.lifecycle.pool.count(Kind.CHILD) == 1)
    broker.provider.sandboxes[broker.provider.created[-1].name].ended.set()
    await asyncio.sleep(0.01)
    assert not (await broker.acquire("c2", Kind.CHILD)).warm


async def test_another_replica_asks_for_the_end(make: Make) -> None:
    holder, other = make(), make(holder="other")
    lease = await holder.acquire()
    refused = await _refused("LEASE_NOT_READY", other.service.usable(CALLER, lease.id, 1))
    assert "endpoint" in refused.metadata
    releasing = asyncio.create_task(other.service.release(CALLER, lease.id))
    await _until_async(lambda: holder.state(lease), LeaseState.DELETING)
    await holder.sweeper.sweep()
    assert (await releasing).state is LeaseState.ABSENT


async def test_leases_of_a_dead_replica_are_quarantined(make: Make) -> None:
    holder, other = make(), make(holder="other")
    lease = await holder.acquire()
    other.clock.advance(300)
    await other.sweeper.reconcile()
    assert await other.state(lease) is LeaseState.QUARANTINED


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def _until_async(value: Callable[[], Any], wanted: object) -> None:
    async with asyncio.timeout(10):
        while await value() != wanted:
            await asyncio.sleep(0.005)
