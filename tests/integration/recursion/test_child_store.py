"""Rows of children: who may write them, who takes them over, and that a call is one transaction."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from services.common import migrations
from services.common.errors import FleetError
from services.recursion.budget.ledger import LedgerState
from services.recursion.children.outcomes import ChildStatus, Cleanup, Failure, Findings, Outcome, ResultFile
from services.recursion.children.states import Child, ChildState
from services.recursion.store.models import Table
from services.rlm.budget.gate import Dimension
from services.rlm.models.usage import ModelUse
from tests.integration.recursion.stores import NOW, Stores, claim, ledger

CHILDREN = Dimension.CHILD_CALLS
LATER = NOW + timedelta(seconds=120)
OUTCOME = Outcome(
    status=ChildStatus.COMPLETED,
    child_id="c",
    findings=Findings("né\0 \U0001f600", ("a",), ("b",), ("out.md",)),
    files=(ResultFile("children/1/out.md", "/workspace/x/out.md", 3, "f" * 64),),
    source_manifest_sha256="a" * 64,
    termination="submit",
    usage=(ModelUse("child", "m", 1, 2, 3, 0.25),),
    iterations=2,
    cleanup=Cleanup.PENDING,
    duration_ms=12,
    failure=Failure("x", "y"),
)


async def begun(stores: Stores, count: int = 2, owner: str = "replica-a") -> tuple[Child, ...]:
    await stores.ledgers.open(ledger("t1", {CHILDREN: 8}))
    call, fresh = await stores.children.begin_call("t1", "c1", "d" * 64, count, claim(owner))
    assert fresh
    return call.children


def reason(error: pytest.ExceptionInfo[FleetError]) -> str:
    return error.value.reason


async def test_models_and_migrations_agree(database_url: str) -> None:
    await migrations.upgrade("recursion", database_url)
    assert await migrations.differences("recursion", database_url, Table.metadata) == []


async def test_a_call_reserves_and_writes_its_children_or_nothing(stores: Stores) -> None:
    await stores.ledgers.open(ledger("t1", {CHILDREN: 3}))
    with pytest.raises(FleetError) as error:
        await stores.children.begin_call("t1", "c1", "d", 4, claim())
    assert reason(error) == "BUDGET_EXHAUSTED"
    assert await stores.children.call("t1", "c1") is None
    assert await stores.used("t1", CHILDREN) == 0
    with pytest.raises(FleetError) as error:
        await stores.children.begin_call("none", "c1", "d", 1, claim())
    assert reason(error) == "LEDGER_NOT_FOUND"


async def test_calls_at_once_get_different_numbers_and_one_call_is_made_once(stores: Stores) -> None:
    await stores.ledgers.open(ledger("t1", {CHILDREN: 8}))
    calls = await asyncio.gather(
        *(stores.children.begin_call("t1", f"c{number // 2}", "d", 2, claim()) for number in range(8))
    )
    assert sorted(fresh for _, fresh in calls) == [False] * 4 + [True] * 4
    children = {child.ordinal: child.id for call, _ in calls for child in call.children}
    assert sorted(children) == list(range(1, 9))
    assert await stores.used("t1", CHILDREN) == 8


async def test_an_outcome_is_kept_as_it_was_and_written_once(stores: Stores) -> None:
    child, _ = await begun(stores)
    await stores.children.start(child)
    await stores.children.finish(child, OUTCOME, gone=False, refund=False)
    call = await stores.children.call("t1", "c1")
    assert call is not None
    assert call.children[0].outcome == OUTCOME
    assert call.children[0].state is ChildState.CLEANING
    with pytest.raises(FleetError) as error:
        await stores.children.finish(child, OUTCOME, gone=True, refund=True)
    assert reason(error) == "OWNERSHIP_LOST"
    assert await stores.used("t1", CHILDREN) == 2
    await stores.children.cleaned(child, OUTCOME)
    assert len(await stores.ledgers.unresolved("t1")) == 1


async def test_a_child_that_never_started_gives_its_unit_back(stores: Stores) -> None:
    child, other = await begun(stores)
    await stores.children.finish(child, OUTCOME, gone=True, refund=True)
    assert await stores.used("t1", CHILDREN) == 1
    # Also after the ledger was closed, so that the Turn's account is right.
    await stores.ledgers.abort("t1", None, NOW)
    await stores.children.finish(other, OUTCOME, gone=True, refund=True)
    assert await stores.used("t1", CHILDREN) == 0


async def test_only_expired_children_are_taken_over_and_their_former_holder_is_fenced(stores: Stores) -> None:
    child, other = await begun(stores)
    await stores.children.start(child)
    assert await stores.children.take_over(claim("replica-b"), 10) == []
    renewed = await stores.children.renew(claim(now=NOW + timedelta(seconds=30)), {child.id})
    assert renewed == [child.id]
    taken = await stores.children.take_over(claim("replica-b", now=NOW + timedelta(seconds=80)), 10)
    assert [each.id for each in taken] == [other.id]
    assert (taken[0].holder.owner, taken[0].holder.epoch) == ("replica-b", 2)
    for write in (
        stores.children.start(other),
        stores.children.finish(other, OUTCOME, gone=True, refund=True),
    ):
        with pytest.raises(FleetError) as error:
            await write
        assert reason(error) == "OWNERSHIP_LOST"
    assert await stores.children.renew(claim(now=NOW + timedelta(seconds=81)), {child.id, other.id}) == [child.id]
    await stores.children.finish(taken[0], OUTCOME, gone=True, refund=False)


async def test_replicas_that_reap_at_once_share_the_children(stores: Stores) -> None:
    children = await begun(stores, count=8)
    taken = await asyncio.gather(
        *(stores.children.take_over(claim(f"replica-{name}", now=LATER), 10) for name in "bcd")
    )
    ids = [child.id for each in taken for child in each]
    assert sorted(ids) == sorted(child.id for child in children)


async def test_a_hold_that_ran_out_is_not_prolonged(stores: Stores) -> None:
    child, _ = await begun(stores)
    assert await stores.children.renew(claim(now=LATER), {child.id}) == []


async def test_children_being_cleaned_up_stay_with_their_replica(stores: Stores) -> None:
    child, _ = await begun(stores)
    await stores.children.start(child)
    await stores.children.finish(child, OUTCOME, gone=False, refund=False)
    assert await stores.children.renew(claim(now=NOW + timedelta(seconds=30)), set()) == [child.id]
    assert [each.id for each in await stores.children.cleaning("replica-a")] == [child.id]
    assert await stores.children.cleaning("replica-b") == []


async def test_an_aborted_turn_starts_no_child(stores: Stores) -> None:
    child, _ = await begun(stores)
    await stores.ledgers.abort("t1", 2, NOW)
    with pytest.raises(FleetError) as error:
        await stores.children.start(child)
    assert reason(error) == "TURN_CANCELLED"


async def test_a_ledger_settles_when_its_last_child_has_ended(stores: Stores) -> None:
    child, other = await begun(stores)
    await stores.ledgers.begin_settling("t1")
    assert (await stores.ledgers.settle("t1", NOW)).state is LedgerState.SETTLING
    with pytest.raises(FleetError) as error:
        await stores.children.begin_call("t1", "c2", "d", 1, claim())
    assert reason(error) == "LEDGER_CLOSED"
    for each in (child, other):
        await stores.children.finish(each, OUTCOME, gone=True, refund=False)
    settled = await stores.ledgers.settle("t1", LATER)
    assert (settled.state, settled.closed_at) == (LedgerState.SETTLED, LATER)
    assert (await stores.ledgers.begin_settling("t1")).state is LedgerState.SETTLED
    assert (await stores.ledgers.abort("t1", None, LATER)).state is LedgerState.SETTLED
    assert await stores.ledgers.overdue(LATER, 10) == []


async def test_ledgers_past_their_deadline_are_found(stores: Stores) -> None:
    await stores.ledgers.open(ledger("t1", {CHILDREN: 1}))
    await stores.ledgers.open(ledger("t2", {CHILDREN: 1}, deadline=NOW + timedelta(hours=5)))
    assert await stores.ledgers.overdue(NOW, 10) == []
    assert await stores.ledgers.overdue(NOW + timedelta(hours=2), 10) == ["t1"]


async def test_opening_at_once_opens_once(stores: Stores) -> None:
    wanted = ledger("t1", {CHILDREN: 1})
    assert await asyncio.gather(*(stores.ledgers.open(wanted) for _ in range(6))) == [wanted] * 6
    with pytest.raises(FleetError) as error:
        await stores.ledgers.open(ledger("t1", {CHILDREN: 2}))
    assert reason(error) == "LEDGER_CONFLICT"
    await stores.ledgers.begin_settling("t1")
    with pytest.raises(FleetError) as error:
        await stores.ledgers.open(wanted)
    assert reason(error) == "LEDGER_CLOSED"
