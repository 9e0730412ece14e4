"""Gates grant all or nothing, also under threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from fleet.common.v1 import budget_pb2
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import FleetError
from services.rlm.budget.gate import Asked, CappedGate, Dimension, LocalGate, Reservation, answered, from_wire, to_wire


def test_every_dimension_has_a_wire_value() -> None:
    wires = {to_wire(dimension) for dimension in Dimension}
    assert wires == set(budget_pb2.BudgetDimension.values()) - {0}
    assert [from_wire(to_wire(dimension)) for dimension in Dimension] == list(Dimension)
    with pytest.raises(ValueError, match="not a budget dimension"):
        from_wire(99)


def test_a_refusal_names_the_dimension_and_what_is_used() -> None:
    gate = LocalGate({Dimension.LLM_CALLS: 3})
    gate.reserve(Dimension.LLM_CALLS, 2)
    with pytest.raises(FleetError) as refused:
        gate.reserve(Dimension.LLM_CALLS, 2)
    assert refused.value.reason == "BUDGET_EXHAUSTED"
    assert dict(refused.value.metadata) == {"dimension": "llm_calls", "used": "2", "limit": "3"}


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=40), st.integers(0, 20))
def test_used_is_what_was_granted_less_what_came_back(calls: list[tuple[int, bool]], limit: int) -> None:
    gate = LocalGate({Dimension.TOOL_CALLS: limit})
    used = 0
    for amount, back in calls:
        try:
            reservation = gate.reserve(Dimension.TOOL_CALLS, amount)
        except FleetError:
            assert used + amount > limit
            continue
        used += amount
        assert reservation.used == used <= limit
        if back:
            gate.refund(reservation, amount)
            used -= amount


def test_threads_never_pass_the_limit() -> None:
    gate = LocalGate({Dimension.LLM_CALLS: 50})

    def ask(_: int) -> bool:
        try:
            gate.reserve(Dimension.LLM_CALLS, 1)
        except FleetError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(ask, range(400))) == 50


def test_a_cap_refuses_before_the_shared_books_are_asked() -> None:
    asked: list[int] = []

    class Shared:
        def ask(self, dimension: Dimension, amount: int) -> Asked:
            return answered(self, dimension, amount)

        def reserve(self, dimension: Dimension, amount: int) -> Reservation:
            asked.append(amount)
            if amount == 3:
                raise FleetError("LEDGER_CLOSED", "closed")
            return Reservation("r", dimension, amount, 7, 9)

        def refund(self, reservation: Reservation, amount: int) -> None:
            asked.append(-amount)

    gate = CappedGate(Shared(), {Dimension.LLM_CALLS: 4})
    with pytest.raises(FleetError, match="BUDGET_EXHAUSTED"):
        gate.reserve(Dimension.LLM_CALLS, 5)
    with pytest.raises(FleetError, match="LEDGER_CLOSED"):
        gate.reserve(Dimension.LLM_CALLS, 3)
    reservation = gate.reserve(Dimension.LLM_CALLS, 4)
    gate.refund(reservation, 1)
    gate.reserve(Dimension.LLM_CALLS, 1)
    assert asked == [3, 4, -1, 1]
