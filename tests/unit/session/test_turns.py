"""The life of a Turn as a state machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.session.turns.turn import ACTIVE, TERMINAL, UNANSWERED, TurnEnd, TurnError, TurnState

STATES = st.sampled_from(TurnState)


def test_every_state_is_running_or_an_end() -> None:
    assert {*ACTIVE, *TERMINAL} == set(TurnState)
    assert not set(ACTIVE) & set(TERMINAL)


@given(st.lists(STATES, max_size=12))
def test_any_walk_goes_forward_and_ends_once(targets: list[TurnState]) -> None:
    walked = [TurnState.QUEUED]
    for target in targets:
        if walked[-1].may_become(target):
            walked.append(target)
    order = list(TurnState)
    ranks = [order.index(state) for state in walked]
    assert ranks == sorted(set(ranks))
    assert sum(state.terminal for state in walked) <= 1
    assert not any(state.terminal for state in walked[:-1])
    if walked[-1] is TurnState.COMPLETED:
        assert walked[-2] is TurnState.SETTLING
        assert TurnState.PREPARING in walked
        assert TurnState.RUNNING in walked


@given(STATES)
def test_an_end_without_an_answer_may_follow_every_running_state(state: TurnState) -> None:
    for end in UNANSWERED:
        assert state.may_become(end) is (state in ACTIVE)


@pytest.mark.parametrize("state", [TurnState.COMPLETED, *ACTIVE])
def test_only_an_end_without_an_answer_has_an_error(state: TurnState) -> None:
    with pytest.raises(ValueError, match="not an end"):
        TurnEnd(state, TurnError("INTERNAL", "?"))
