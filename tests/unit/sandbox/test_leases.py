"""The lease's states, and the capacity that they count against."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import FleetError
from services.sandbox.leases.capacity import Capacity
from services.sandbox.leases.lease import OPEN, UNUSABLE, Lease, LeaseState, LeaseTransitionError, Owner, before
from services.sandbox.providers.base import Kind

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def _lease() -> Lease:
    return Lease("l1", "r", Kind.ROOT, Owner("s", "t"), "w", "box", "me", "", NOW, NOW)


@given(st.lists(st.sampled_from(LeaseState), max_size=12))
def test_any_walk(wanted: list[LeaseState]) -> None:
    lease = _lease()
    ended = False
    for state in wanted:
        try:
            following = lease.to(state)
        except LeaseTransitionError:
            assert lease.state not in before(state)
            continue
        assert lease.state in before(state)
        ended = ended or lease.state in UNUSABLE
        lease = following
        # No way leads back to a usable sandbox, and only absence frees its slot.
        assert not (ended and lease.state is LeaseState.READY)
        assert (lease.state in OPEN) == (lease.state is not LeaseState.ABSENT)
    assert lease.delete_attempts >= (lease.state in (LeaseState.DELETING, LeaseState.ABSENT, LeaseState.QUARANTINED))


def test_an_absent_lease_stays_absent() -> None:
    lease = _lease().to(LeaseState.DELETING, "why").to(LeaseState.ABSENT)
    assert lease.last_error == "why"
    for state in LeaseState:
        with pytest.raises(LeaseTransitionError):
            lease.to(state)


def test_renewal() -> None:
    lease = _lease().renewed(NOW, timedelta(seconds=60), idle=True, turn="")
    later = lease.renewed(NOW + timedelta(seconds=5), timedelta(seconds=60), idle=True, turn="")
    assert later.idle_since == NOW
    assert later.expire_time == NOW + timedelta(seconds=65)
    assert later.owner == Owner("s")
    assert later.renewed(NOW, timedelta(1), idle=False, turn="t2").idle_since is None
    assert later.same_request(Kind.ROOT, Owner("s", "another"))
    assert not later.same_request(Kind.CHILD, Owner("s"))
    assert not later.same_request(Kind.ROOT, Owner("s2"))


async def test_slots_are_handed_on_in_order() -> None:
    capacity = Capacity({Kind.ROOT: 1, Kind.CHILD: 1})
    await capacity.take(Kind.ROOT, 1)
    await capacity.take(Kind.CHILD, 1)
    waiting = [asyncio.create_task(capacity.take(Kind.ROOT, 10)) for _ in range(3)]
    await asyncio.sleep(0)
    assert capacity.waiting(Kind.ROOT) == 3
    assert not capacity.try_take(Kind.ROOT)
    waiting[0].cancel()
    await asyncio.wait((waiting[0],))
    capacity.give_back(Kind.ROOT)
    await asyncio.sleep(0)
    assert waiting[1].done()
    assert not waiting[2].done()
    capacity.give_back(Kind.ROOT)
    await waiting[2]
    assert capacity.used(Kind.ROOT) == 1
    assert capacity.used(Kind.CHILD) == 1


async def test_no_slot_in_time() -> None:
    capacity = Capacity({Kind.ROOT: 1, Kind.CHILD: 1})
    assert capacity.try_take(Kind.CHILD)
    with pytest.raises(FleetError) as error:
        await capacity.take(Kind.CHILD, 0.01)
    assert error.value.reason == "SANDBOX_CAPACITY"
    assert error.value.retry_after
    capacity.give_back(Kind.CHILD)
    assert capacity.try_take(Kind.CHILD)


async def test_a_slot_that_comes_with_the_end_of_the_wait_is_not_lost() -> None:
    capacity = Capacity({Kind.ROOT: 1, Kind.CHILD: 1})
    assert capacity.try_take(Kind.ROOT)
    waiting = asyncio.create_task(capacity.take(Kind.ROOT, 10))
    await asyncio.sleep(0)
    capacity.give_back(Kind.ROOT)
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert capacity.used(Kind.ROOT) == (0 if waiting.cancelled() else 1)


async def test_what_exists_beyond_the_limit_is_counted() -> None:
    capacity = Capacity({Kind.ROOT: 1, Kind.CHILD: 1})
    capacity.occupy(Kind.ROOT)
    capacity.occupy(Kind.ROOT)
    waiting = asyncio.create_task(capacity.take(Kind.ROOT, 10))
    await asyncio.sleep(0)
    capacity.give_back(Kind.ROOT)
    await asyncio.sleep(0)
    assert not waiting.done()
    capacity.give_back(Kind.ROOT)
    await waiting
