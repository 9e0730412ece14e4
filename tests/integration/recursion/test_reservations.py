"""The ledger's arithmetic on real databases: never past a limit, every id once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.common.errors import FleetError
from services.common.ids import new_id
from services.recursion.store.statements import Statements
from services.rlm.budget.gate import Dimension
from tests.integration.recursion.stores import NOW, Stores, ledger

LLM = Dimension.LLM_CALLS


async def reason_of(call: object) -> str:
    try:
        await call  # type: ignore[misc]
    except FleetError as error:
        return error.reason
    return "OK"


async def test_64_concurrent_reservations_of_10_units_grant_exactly_10(stores: Stores) -> None:
    await stores.ledgers.open(ledger("t1", {LLM: 10}))
    results = await asyncio.gather(
        *(reason_of(stores.reservations.reserve("t1", f"r{number}", LLM, 1, NOW)) for number in range(64))
    )
    assert sorted(set(results)) == ["BUDGET_EXHAUSTED", "OK"]
    assert results.count("OK") == 10
    assert await stores.used("t1", LLM) == 10


async def test_a_repeated_reservation_counts_once_and_another_amount_is_a_conflict(stores: Stores) -> None:
    await stores.ledgers.open(ledger("t1", {LLM: 10, Dimension.TOOL_CALLS: 5}))
    lines = await asyncio.gather(*(stores.reservations.reserve("t1", "same", LLM, 4, NOW) for _ in range(8)))
    assert {line.used for line in lines} == {4}
    for dimension, amount in ((LLM, 3), (Dimension.TOOL_CALLS, 4)):
        with pytest.raises(FleetError) as refusal:
            await stores.reservations.reserve("t1", "same", dimension, amount, NOW)
        assert refusal.value.reason == "RESERVATION_CONFLICT"
    assert await stores.used("t1", LLM) == 4


async def test_a_batch_gets_all_or_nothing_and_the_refusal_says_what_is_left(stores: Stores) -> None:
    await stores.ledgers.open(ledger("t1", {LLM: 10}))
    await stores.reservations.reserve("t1", "r1", LLM, 8, NOW)
    with pytest.raises(FleetError) as refusal:
        await stores.reservations.reserve("t1", "r2", LLM, 3, NOW)
    assert refusal.value.reason == "BUDGET_EXHAUSTED"
    assert dict(refusal.value.metadata) == {"dimension": "llm_calls", "used": "8", "limit": "10"}
    assert "at most 2" in refusal.value.message
    # The refused id is free: it was never granted.
    assert (await stores.reservations.reserve("t1", "r2", LLM, 2, NOW)).used == 10


async def test_a_refund_says_what_is_unused_in_all_and_counts_once(stores: Stores) -> None:
    await stores.ledgers.open(ledger("t1", {LLM: 10}))
    await stores.reservations.reserve("t1", "r1", LLM, 6, NOW)
    assert (await stores.reservations.refund("t1", "r1", 2)).used == 4
    assert (await stores.reservations.refund("t1", "r1", 2)).used == 4
    assert (await stores.reservations.refund("t1", "r1", 1)).used == 4
    assert (await stores.reservations.refund("t1", "r1", 6)).used == 0
    assert await reason_of(stores.reservations.refund("t1", "r1", 7)) == "INVALID_ARGUMENT"
    assert await reason_of(stores.reservations.refund("t1", "other", 1)) == "INVALID_ARGUMENT"
    assert await reason_of(stores.reservations.refund("none", "r1", 1)) == "LEDGER_NOT_FOUND"


async def test_nothing_is_granted_without_a_ledger_a_line_or_time(stores: Stores) -> None:
    await stores.ledgers.open(ledger("t1", {LLM: 10, Dimension.SECONDS: 3600}))
    assert await reason_of(stores.reservations.reserve("none", "r1", LLM, 1, NOW)) == "LEDGER_NOT_FOUND"
    assert await reason_of(stores.reservations.reserve("t1", "r1", Dimension.TOOL_CALLS, 1, NOW)) == "BUDGET_EXHAUSTED"
    with pytest.raises(FleetError) as refusal:
        await stores.reservations.reserve("t1", "r2", LLM, 1, NOW + timedelta(hours=2))
    assert refusal.value.metadata["dimension"] == "seconds"


async def test_a_settling_ledger_grants_nothing_but_takes_back(stores: Stores) -> None:
    await stores.ledgers.open(ledger("t1", {LLM: 10}))
    await stores.reservations.reserve("t1", "r1", LLM, 3, NOW)
    await stores.ledgers.begin_settling("t1")
    assert await reason_of(stores.reservations.reserve("t1", "r2", LLM, 1, NOW)) == "LEDGER_CLOSED"
    # Its own grant, asked for again because the reply was lost, is still granted.
    assert (await stores.reservations.reserve("t1", "r1", LLM, 3, NOW)).used == 3
    assert (await stores.reservations.refund("t1", "r1", 1)).used == 2


async def test_a_settlement_and_reservations_at_once_leave_no_late_grant(stores: Stores) -> None:
    await stores.ledgers.open(ledger("t1", {LLM: 1000}))
    granted: list[int] = []

    async def reserve(number: int) -> None:
        if await reason_of(stores.reservations.reserve("t1", f"r{number}", LLM, 1, NOW)) == "OK":
            granted.append(number)

    async def settle() -> int:
        await stores.ledgers.begin_settling("t1")
        return await stores.used("t1", LLM)

    calls = [reserve(number) for number in range(120)]
    seen, *_ = await asyncio.gather(settle(), *calls)
    assert await stores.used("t1", LLM) == seen == len(granted)


OPERATIONS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["reserve", "refund"]), st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=6
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(waves=OPERATIONS, limit=st.integers(0, 12))
def test_any_mixture_of_calls_keeps_the_books_right(
    waves: list[list[tuple[str, int, int]]], limit: int, loop_stores: tuple[asyncio.AbstractEventLoop, Stores]
) -> None:
    """Waves of concurrent calls: used is what was granted less what is unused, and never above the limit."""
    loop, stores = loop_stores
    loop.run_until_complete(_mixture(stores, waves, limit))


async def _mixture(stores: Stores, waves: list[list[tuple[str, int, int]]], limit: int) -> None:
    turn = new_id()
    await stores.ledgers.open(ledger(turn, {LLM: limit}))
    granted: dict[str, int] = {}
    unused: dict[str, int] = {}
    refusals: set[str] = set()

    async def call(kind: str, number: int, amount: int) -> None:
        reservation = f"r{number}"
        try:
            if kind == "reserve":
                line = await stores.reservations.reserve(turn, reservation, LLM, amount, NOW)
                assert granted.setdefault(reservation, amount) == amount
            else:
                line = await stores.reservations.refund(turn, reservation, amount)
                unused[reservation] = max(unused.get(reservation, 0), amount)
            assert 0 <= line.used <= line.limit == limit
        except FleetError as error:
            refusals.add(error.reason)

    for wave in waves:
        await asyncio.gather(*(call(*operation) for operation in wave))
        assert await stores.used(turn, LLM) == sum(granted.values()) - sum(unused.values()) <= limit
    assert refusals <= {"BUDGET_EXHAUSTED", "RESERVATION_CONFLICT", "INVALID_ARGUMENT", "UNAVAILABLE"}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_full_disk_is_an_outage_that_may_pass(stores: Stores) -> None:
    def fill(statements: Statements) -> None:
        statements.row("PRAGMA max_page_count = 1", {})
        statements.change("CREATE TABLE large (bytes BLOB)", {})
        statements.change("INSERT INTO large VALUES (zeroblob(:size))", {"size": 4_000_000})

    with pytest.raises(FleetError) as refusal:
        await stores.transactions.run(fill)
    assert (refusal.value.reason, refusal.value.message) == ("UNAVAILABLE", "The database can't be used.")
    await stores.transactions.run(lambda statements: statements.row("PRAGMA max_page_count = 1000000", {}))
    await stores.ledgers.open(ledger("t1", {LLM: 10}))
    assert (await stores.reservations.reserve("t1", "r1", LLM, 1, NOW)).used == 1
