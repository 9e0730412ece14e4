"""The leases' table, on both databases."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from services.common import migrations
from services.common.database import Database
from services.sandbox.leases.lease import OPEN, Lease, LeaseState, Owner
from services.sandbox.providers.base import Kind
from services.sandbox.store import LeaseStore, Table

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def _lease(number: int, **changes: object) -> Lease:
    lease = Lease(f"l{number}", f"r{number}", Kind.ROOT, Owner("s", "t"), "w", f"box{number}", "me", "here", NOW, NOW)
    return replace(lease, **changes)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[LeaseStore]:
    await migrations.upgrade("sandbox", database_url)
    assert await migrations.differences("sandbox", database_url, Table.metadata) == []
    database = Database(database_url)
    yield LeaseStore(database)
    await database.close()


async def test_a_lease_is_what_was_written(store: LeaseStore) -> None:
    lease = _lease(1, idle_since=NOW, warm=True, last_error="e", isolation="bubblewrap", mount_root="/scratch")
    assert await store.insert(lease)
    assert await store.get("l1") == lease
    assert await store.by_request("w", "r1") == lease
    assert await store.by_request("other", "r1") is None
    assert await store.get("none") is None


async def test_a_request_id_has_one_lease_a_workspace(store: LeaseStore) -> None:
    assert await store.insert(_lease(1))
    assert not await store.insert(_lease(2, request_id="r1"))
    assert await store.insert(_lease(3, request_id="r1", workspace="other"))
    await store.forget_request("l1")
    assert await store.insert(_lease(2, request_id="r1"))
    await store.forget_request("l2")
    assert await store.by_request("w", "r1") is None


async def test_states_are_guarded_by_the_database(store: LeaseStore) -> None:
    lease = _lease(1)
    await store.insert(lease)
    creating = lease.to(LeaseState.CREATING)
    assert await store.save(creating)
    assert await store.save(creating.to(LeaseState.DELETING, "released"))
    assert not await store.save(creating.to(LeaseState.READY))
    assert not await store.update_ready(creating)
    stored = await store.get("l1")
    assert stored is not None
    assert (stored.state, stored.last_error, stored.delete_attempts) == (LeaseState.DELETING, "released", 1)


async def test_renewing_a_ready_lease(store: LeaseStore) -> None:
    ready = _lease(1, state=LeaseState.READY)
    await store.insert(ready)
    renewed = ready.renewed(NOW, timedelta(seconds=9), idle=True, turn="")
    assert await store.update_ready(renewed)
    assert await store.get("l1") == renewed


async def test_lists(store: LeaseStore) -> None:
    await store.insert(_lease(1))
    await store.insert(_lease(2, owner=Owner("s", "t2")))
    await store.insert(_lease(3, owner=Owner("s2"), kind=Kind.CHILD))
    await store.insert(_lease(4, state=LeaseState.ABSENT))
    await store.insert(_lease(5, workspace="other"))

    async def page(**changes: object) -> list[str]:
        options = {"session": "", "turn": "", "include_absent": False, "before_id": "", "size": 10, **changes}
        return [lease.id for lease in await store.page("w", **options)]  # type: ignore[arg-type]

    assert await page() == ["l3", "l2", "l1"]
    assert await page(include_absent=True, size=2) == ["l4", "l3"]
    assert await page(before_id="l3") == ["l2", "l1"]
    assert await page(session="s", turn="t2") == ["l2"]


async def test_what_replicas_hold(store: LeaseStore) -> None:
    await store.insert(_lease(1))
    await store.insert(_lease(2, state=LeaseState.ABSENT))
    await store.insert(_lease(3, holder="other", workspace="w3"))
    assert [lease.id for lease in await store.held("me", OPEN)] == ["l1"]
    assert [lease.id for lease in await store.abandoned("me", NOW + timedelta(seconds=1))] == ["l3"]
    assert await store.abandoned("me", NOW) == []
    assert await store.last_root_workspace() == "w3"
