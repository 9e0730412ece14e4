"""Single rules of the resident registry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from services.common.errors import FleetError
from services.session.running.residents.registry import RegistryLimits, ResidentRegistry
from services.session.running.residents.resident import Health, SessionKey
from tests.fakes.resident_runtime import FakeRuntime, ManualClock

KEY = SessionKey("w", "s")
LIMITS = RegistryLimits(max_resident=2, idle_seconds=60, heartbeat_seconds=10, lease_seconds=30, close_pause_seconds=0)
Registry = ResidentRegistry[FakeRuntime]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def registry(clock: ManualClock) -> AsyncIterator[Registry]:
    registry: Registry = ResidentRegistry(LIMITS, clock)
    yield registry
    await registry.close(5)


def making(*runtimes: FakeRuntime) -> Callable[[], FakeRuntime]:
    rest = iter(runtimes)
    return lambda: next(rest)


async def test_a_committed_turn_is_followed_by_the_same_runtime(registry: Registry) -> None:
    first = await registry.checkout(KEY, "t1", "f", making(FakeRuntime()))
    assert (first.reused, first.rotation_reason) == (False, "")
    registry.commit(first)
    second = await registry.checkout(KEY, "t2", "f", making())
    assert second.reused
    assert second.resident is first.resident
    assert second.resident.runtime.renewals[-1] == (False, "t2")
    registry.commit(second)


async def test_another_fingerprint_rotates_and_says_so(registry: Registry) -> None:
    first = await registry.checkout(KEY, "t1", "f", making(FakeRuntime()))
    registry.commit(first)
    second = await registry.checkout(KEY, "t2", "g", making(FakeRuntime()))
    assert not second.reused
    assert "configuration" in second.rotation_reason
    assert first.resident.health is Health.CLOSED
    registry.commit(second)


async def test_a_failed_turn_rotates_with_its_reason(registry: Registry) -> None:
    first = await registry.checkout(KEY, "t1", "f", making(FakeRuntime()))
    registry.abandon(first, "the Turn failed: MODEL_UNAVAILABLE")
    second = await registry.checkout(KEY, "t2", "f", making(FakeRuntime()))
    assert second.rotation_reason == "the Turn failed: MODEL_UNAVAILABLE"
    assert second.resident.generation == first.resident.generation + 1
    registry.commit(second)


async def test_an_evicted_session_learns_why(registry: Registry, clock: ManualClock) -> None:
    first = await registry.checkout(KEY, "t1", "f", making(FakeRuntime()))
    registry.commit(first)
    clock.seconds += 61
    registry.sweep()
    second = await registry.checkout(KEY, "t2", "f", making(FakeRuntime()))
    assert second.rotation_reason == "the Session was idle"
    registry.commit(second)


async def test_a_lease_revoked_between_turns_rotates(registry: Registry) -> None:
    first = await registry.checkout(KEY, "t1", "f", making(FakeRuntime()))
    registry.commit(first)
    first.resident.runtime.renewal = FleetError("LEASE_LOST", "reclaimed")
    second = await registry.checkout(KEY, "t2", "f", making(FakeRuntime()))
    assert not second.reused
    assert "lease was lost" in second.rotation_reason
    registry.commit(second)


async def test_a_lease_lost_during_a_turn_is_told_and_no_commit_heals_it(registry: Registry) -> None:
    checkout = await registry.checkout(KEY, "t1", "f", making(FakeRuntime()))
    checkout.resident.runtime.renewal = FleetError("STALE_EPOCH", "replaced")
    await registry.beat()
    assert checkout.resident.lost.is_set()
    registry.commit(checkout)
    assert checkout.resident.health is Health.DRAINING


async def test_a_broker_out_of_reach_is_forgiven_until_the_lease_has_run_out(
    registry: Registry, clock: ManualClock
) -> None:
    checkout = await registry.checkout(KEY, "t1", "f", making(FakeRuntime()))
    checkout.resident.runtime.renewal = FleetError("UNAVAILABLE", "down")
    clock.seconds += 20
    await registry.beat()
    assert not checkout.resident.lost.is_set()
    clock.seconds += 20
    await registry.beat()
    assert checkout.resident.lost.is_set()
    registry.abandon(checkout, "lost")


async def test_an_unconfirmed_release_refuses_the_next_turn_until_it_is_confirmed(
    registry: Registry,
) -> None:
    runtime = FakeRuntime(confirms=False)
    first = await registry.checkout(KEY, "t1", "f", making(runtime))
    registry.abandon(first, "failed")
    with pytest.raises(FleetError, match="PREPARATION_FAILED"):
        await registry.checkout(KEY, "t2", "f", making())
    runtime.confirms = True
    second = await registry.checkout(KEY, "t3", "f", making(FakeRuntime()))
    assert second.rotation_reason == "failed"
    registry.commit(second)


async def test_a_start_that_fails_is_undone(registry: Registry) -> None:
    broken = FakeRuntime(opening=FleetError("SANDBOX_CAPACITY", "full"))
    with pytest.raises(FleetError, match="SANDBOX_CAPACITY"):
        await registry.checkout(KEY, "t1", "f", making(broken))
    second = await registry.checkout(KEY, "t2", "f", making(FakeRuntime()))
    assert broken.closed == 1
    registry.commit(second)


async def test_a_cancelled_start_is_undone(registry: Registry) -> None:
    reached = asyncio.Event()

    class Slow(FakeRuntime):
        async def open(self) -> None:
            await super().open()
            reached.set()
            await asyncio.Event().wait()

    slow = Slow()
    task = asyncio.create_task(registry.checkout(KEY, "t1", "f", making(slow)))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    second = await registry.checkout(KEY, "t2", "f", making(FakeRuntime()))
    assert slow.closed == 1
    registry.commit(second)


async def test_a_session_has_one_turn_at_a_time(registry: Registry) -> None:
    first = await registry.checkout(KEY, "t1", "f", making(FakeRuntime()))
    waiting = asyncio.create_task(registry.checkout(KEY, "t2", "f", making()))
    await asyncio.sleep(0)
    assert not waiting.done()
    registry.commit(first)
    second = await waiting
    assert second.reused
    registry.commit(second)


async def test_the_least_recently_used_idle_session_makes_room(registry: Registry, clock: ManualClock) -> None:
    for name in ("a", "b"):
        clock.seconds += 1
        registry.commit(await registry.checkout(SessionKey("w", name), "t", "f", making(FakeRuntime())))
    third = await registry.checkout(SessionKey("w", "c"), "t", "f", making(FakeRuntime()))
    live = {resident.key.session for resident in registry.residents() if resident.health is not Health.DRAINING}
    assert live == {"b", "c"}
    registry.commit(third)


async def test_closing_releases_everything(clock: ManualClock) -> None:
    registry: Registry = ResidentRegistry(LIMITS, clock)
    registry.start()
    runtimes = [FakeRuntime(), FakeRuntime()]
    for name, runtime in zip("ab", runtimes, strict=True):
        registry.commit(await registry.checkout(SessionKey("w", name), "t", "f", making(runtime)))
    assert await registry.close(5)
    assert [runtime.closed for runtime in runtimes] == [1, 1]
