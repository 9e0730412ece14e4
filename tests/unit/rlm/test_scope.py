"""The scope: one cancellation, budget events told once, nothing after the end."""

from __future__ import annotations

import pytest

from services.common.errors import FleetError
from services.rlm.budget.gate import Asked, Dimension, LocalGate
from services.rlm.events import BudgetExhausted, BudgetUpdated, Warned
from services.rlm.invocation.scope import InvocationScope, current_scope, enter_scope
from services.rlm.models.usage import ModelUse
from tests.fakes.rlm_events import KeptEvents


def _scope(sink: KeptEvents, **limits: int) -> InvocationScope:
    return InvocationScope(
        sink=sink,
        gate=LocalGate({Dimension(name): limit for name, limit in limits.items()}),
        tools={},
        deadline=1e9,
        work_deadline=1e9 - 60,
        recursion=True,
        max_iters=3,
    )


async def test_the_first_cancellation_counts_and_runs_each_callback_once() -> None:
    scope, ran = _scope(KeptEvents()), []
    scope.on_cancel(lambda: ran.append("a"))
    forget = scope.on_cancel(lambda: ran.append("b"))
    forget()
    scope.cancel(FleetError("TURN_TIMED_OUT", "late"))
    scope.cancel()
    scope.on_cancel(lambda: ran.append("c"))
    assert ran == ["a", "c"]
    with pytest.raises(FleetError, match="TURN_TIMED_OUT"):
        scope.check()
    with pytest.raises(FleetError, match="TURN_TIMED_OUT"):
        scope.reserve(Dimension.TOOL_CALLS, 1)


async def test_nothing_acts_after_the_end() -> None:
    sink = KeptEvents()
    scope = _scope(sink)
    scope.end()
    scope.emit(Warned("late", "too late"))
    assert sink.events == []
    with pytest.raises(FleetError, match="is over"):
        scope.check()
    scope.cancel()
    assert not scope.cancelled


async def test_a_spent_dimension_is_told_once_with_advice() -> None:
    sink = KeptEvents()
    scope = _scope(sink, llm_calls=2)
    scope.reserve(Dimension.LLM_CALLS, 2)
    for _ in range(2):
        with pytest.raises(FleetError, match=r"llm_calls is spent \(2 of 2\)\. Use Python on what you have"):
            scope.reserve(Dimension.LLM_CALLS, 1)
    assert sink.of(BudgetUpdated) == [BudgetUpdated(Dimension.LLM_CALLS, 2, 2)]
    assert sink.of(BudgetExhausted) == [BudgetExhausted(Dimension.LLM_CALLS, finalizes=False)]
    assert scope.exhausted(Dimension.CHILD_CALLS)


async def test_too_large_a_wish_is_no_spent_budget() -> None:
    sink = KeptEvents()
    scope = _scope(sink, llm_calls=2)
    with pytest.raises(FleetError, match="2 of 2 left and this call asks for 3"):
        scope.reserve(Dimension.LLM_CALLS, 3)
    assert sink.events == []


async def test_usage_adds_up_by_role_and_model() -> None:
    scope = _scope(KeptEvents())
    scope.record_use(ModelUse("root", "m", 1, 10, 5))
    scope.record_use(ModelUse("root", "m", 1, 1, 1, 0.5))
    scope.record_use(ModelUse("sub", "m", 2, 3, 4))
    assert scope.usage() == [ModelUse("root", "m", 2, 11, 6, 0.5), ModelUse("sub", "m", 2, 3, 4)]


async def test_the_current_scope_follows_the_context() -> None:
    assert current_scope() is None
    scope = _scope(KeptEvents())
    enter_scope(scope)
    assert current_scope() is scope


class _SlowGate(LocalGate):
    """Answers when the test says so."""

    def __init__(self, limits: dict[Dimension, int]) -> None:
        super().__init__(limits)
        self.asked: list[Asked] = []

    def ask(self, dimension: Dimension, amount: int) -> Asked:
        self.asked.append(Asked())
        return self.asked[-1]

    def answer(self) -> None:
        try:
            self.asked[-1].set_result(self.reserve(Dimension.ITERATIONS, 1))
        except FleetError as error:
            self.asked[-1].set_exception(error)


def _slow(sink: KeptEvents, limit: int) -> tuple[InvocationScope, _SlowGate]:
    gate = _SlowGate({Dimension.ITERATIONS: limit})
    scope = InvocationScope(
        sink=sink, gate=gate, tools={}, deadline=1e9, work_deadline=1e9 - 60, recursion=True, max_iters=3
    )
    return scope, gate


async def test_an_iteration_is_asked_for_once_when_its_step_begins() -> None:
    sink = KeptEvents()
    scope, gate = _slow(sink, limit=2)
    for step in (1, 2):
        scope.steps.begin()
        scope.steps.begin()
        assert len(gate.asked) == step, "a re-ask is no new step"
        gate.answer()
        assert sink.of(BudgetUpdated)[step - 1 :] == []
        assert scope.reserve_step().used == step
        scope.steps.complete("", "")
    assert sink.of(BudgetUpdated) == [BudgetUpdated(Dimension.ITERATIONS, used, 2) for used in (1, 2)]
    scope.steps.begin()
    gate.answer()
    assert sink.of(BudgetExhausted) == [], "it is told when the code would run"
    with pytest.raises(FleetError, match=r"iterations is spent \(2 of 2\)"):
        scope.reserve_step()
    assert sink.of(BudgetExhausted) == [BudgetExhausted(Dimension.ITERATIONS, finalizes=True)]


async def test_a_step_whose_code_never_ran_keeps_its_iteration() -> None:
    scope, gate = _slow(KeptEvents(), limit=5)
    for _ in range(2):
        scope.steps.begin()
        gate.answer()
        scope.steps.reasoned("a", "not Python")
    assert scope.reserve_step().used == 2 == scope.iteration


async def test_what_nobody_waits_for_any_more_is_called_off() -> None:
    scope, gate = _slow(KeptEvents(), limit=5)
    scope.steps.begin()
    scope.end()
    assert gate.asked[0].cancelled()
    scope.steps.reasoned("a", "x")
    scope.steps.begin()
    assert len(gate.asked) == 1, "an invocation that is over asks for nothing"
