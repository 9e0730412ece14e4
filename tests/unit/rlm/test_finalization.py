"""When work ends, and for whom."""

from __future__ import annotations

import pytest

from services.rlm.budget.gate import Dimension
from services.rlm.invocation.finalization import Finalization


class Hand:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _finalization(hand: Hand, *, recursion: bool = False) -> Finalization:
    return Finalization(deadline=1000, work_deadline=700, recursion=recursion, clock=hand)


@pytest.mark.parametrize("dimension", [Dimension.TOOL_CALLS, Dimension.OUTPUT_BYTES])
def test_a_spent_budget_leaves_two_more_actions(dimension: Dimension) -> None:
    finalization = _finalization(Hand())
    assert finalization.spent(dimension, iteration=3)
    assert [finalization.over(iteration) for iteration in (3, 4, 5)] == [False, False, True]
    assert "2 more steps" in finalization.notice(3)
    assert "1 more step:" in finalization.notice(4)
    assert finalization.notice(5) == ""
    assert finalization.cause is dimension


def test_steps_that_are_spent_end_the_loop_at_once() -> None:
    finalization = _finalization(Hand())
    assert finalization.spent(Dimension.ITERATIONS, iteration=12)
    assert finalization.over(12)


def test_model_calls_alone_end_the_work_only_without_children() -> None:
    assert _finalization(Hand()).spent(Dimension.LLM_CALLS, 1)
    with_children = _finalization(Hand(), recursion=True)
    assert not with_children.spent(Dimension.LLM_CALLS, 1)
    assert not with_children.over(9)
    assert with_children.spent(Dimension.CHILD_CALLS, 2)
    assert with_children.cause is Dimension.CHILD_CALLS


def test_children_alone_never_end_the_work() -> None:
    finalization = _finalization(Hand(), recursion=True)
    assert not finalization.spent(Dimension.CHILD_CALLS, 1)
    assert finalization.cause is None


def test_the_time_after_a_spent_budget_is_half_of_the_wrap_up_time() -> None:
    hand, moved = Hand(), []
    finalization = _finalization(hand)
    finalization.on_change(lambda: moved.append(finalization.until))
    assert finalization.until == 700
    hand.now = 300
    finalization.spent(Dimension.TOOL_CALLS, 1)
    assert moved == [450]
    finalization.spent(Dimension.OUTPUT_BYTES, 2)
    assert finalization.until == 450
    assert finalization.cause is Dimension.TOOL_CALLS


def test_work_never_outlasts_the_work_deadline() -> None:
    hand = Hand()
    hand.now = 690
    finalization = _finalization(hand)
    finalization.spent(Dimension.TOOL_CALLS, 1)
    assert finalization.until == 700


def test_the_clock_makes_the_running_action_the_last() -> None:
    finalization = _finalization(Hand())
    finalization.end_by_clock()
    assert finalization.over(1)
    assert finalization.by_clock
    assert finalization.cause is Dimension.SECONDS
    assert finalization.notice(1) == ""


@pytest.mark.parametrize(("work_deadline", "extract_by"), [(700.0, 940.0), (980.0, 990.0), (1000.0, 1000.0)])
def test_extraction_starts_a_minute_before_the_end_or_half_of_a_short_wrap_up(
    work_deadline: float, extract_by: float
) -> None:
    finalization = Finalization(deadline=1000, work_deadline=work_deadline, recursion=False)
    assert finalization.extract_by == extract_by
