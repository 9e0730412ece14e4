"""The rules of the books that need no database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from services.common.errors import FleetError
from services.common.request_context import LOOPBACK, Principal
from services.recursion import identity
from services.recursion.budget.ledger import (
    Ledger,
    LedgerState,
    Line,
    check_limits,
    check_refund,
    check_reservable,
    exhausted,
)
from services.rlm.budget.gate import Dimension

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LEDGER = Ledger(
    turn="t1",
    session="s1",
    workspace="local",
    epoch=1,
    state=LedgerState.OPEN,
    deadline=NOW + timedelta(seconds=100),
    work_deadline=NOW + timedelta(seconds=80),
    lines=(Line(Dimension.LLM_CALLS, 10, 3), Line(Dimension.SECONDS, 100)),
)


def reason(error: pytest.ExceptionInfo[FleetError]) -> str:
    return error.value.reason


@pytest.mark.parametrize(("after", "used"), [(-5, 0), (0, 0), (30.9, 30), (100, 100), (500, 100)])
def test_seconds_are_read_from_the_clock(after: float, used: int) -> None:
    lines = {line.dimension: line.used for line in LEDGER.at(NOW + timedelta(seconds=after))}
    assert lines == {Dimension.LLM_CALLS: 3, Dimension.SECONDS: used}


def test_seconds_stop_when_the_ledger_ends() -> None:
    ended = replace(LEDGER, state=LedgerState.SETTLED, closed_at=NOW + timedelta(seconds=12))
    assert ended.at(NOW + timedelta(seconds=90))[1].used == 12


def test_terms_are_the_same_whatever_was_spent_and_in_whatever_order() -> None:
    spent = replace(LEDGER, lines=(Line(Dimension.SECONDS, 100), Line(Dimension.LLM_CALLS, 10, 9)))
    assert LEDGER.same_terms(spent)
    for changed in (
        replace(LEDGER, epoch=2),
        replace(LEDGER, workspace="other"),
        replace(LEDGER, deadline=NOW),
        replace(LEDGER, lines=LEDGER.lines[:1]),
    ):
        assert not LEDGER.same_terms(changed)


def test_limits_that_make_no_sense_are_refused() -> None:
    for lines in ([Line(Dimension.LLM_CALLS, 1)] * 2, [Line(Dimension.LLM_CALLS, 2, 1)]):
        with pytest.raises(FleetError) as error:
            check_limits(lines)
        assert reason(error) == "INVALID_ARGUMENT"
    with pytest.raises(FleetError):
        check_reservable(Dimension.SECONDS)
    with pytest.raises(FleetError):
        check_refund(3, 4)
    check_refund(3, 3)


@pytest.mark.parametrize(("used", "advice"), [(10, "SUBMIT"), (7, "at most 3")])
def test_a_refusal_says_what_to_do(used: int, advice: str) -> None:
    error = exhausted(Line(Dimension.LLM_CALLS, 10, used), 5)
    assert "llm_calls" in error.message
    assert advice in error.message
    assert dict(error.metadata) == {"dimension": "llm_calls", "used": str(used), "limit": "10"}


ROOT = Principal("local", "service:session", "s1", "t1", 0)
CHILD = Principal("local", "service:recursion", "s1", "t1", 1)
OTHER = Principal("local", "service:session", "s1", "t2", 0)


@pytest.mark.parametrize(
    ("check", "caller", "expected"),
    [
        (identity.check_turn, ROOT, None),
        (identity.check_turn, CHILD, None),
        (identity.check_turn, OTHER, "PERMISSION_DENIED"),
        (identity.check_turn, LOOPBACK, "PERMISSION_DENIED"),
        (identity.check_root, ROOT, None),
        (identity.check_root, CHILD, "PERMISSION_DENIED"),
        (identity.check_aborter, ROOT, None),
        (identity.check_aborter, LOOPBACK, None),
        (identity.check_aborter, OTHER, "PERMISSION_DENIED"),
        (identity.check_aborter, CHILD, "PERMISSION_DENIED"),
        (identity.check_depth, ROOT, None),
        (identity.check_depth, CHILD, "DEPTH_LIMIT"),
        (identity.check_depth, replace(CHILD, turn=None), "DEPTH_LIMIT"),
        (identity.check_depth, LOOPBACK, "PERMISSION_DENIED"),
    ],
)
def test_who_may_ask(check: object, caller: Principal, expected: str | None) -> None:
    assert callable(check)
    if expected is None:
        check(caller, "t1")
        return
    with pytest.raises(FleetError) as error:
        check(caller, "t1")
    assert reason(error) == expected


def test_only_a_service_that_acts_for_itself_opens_books() -> None:
    identity.check_opener(LOOPBACK)
    for caller in (ROOT, CHILD, replace(CHILD, turn=None)):
        with pytest.raises(FleetError) as error:
            identity.check_opener(caller)
        assert reason(error) == "PERMISSION_DENIED"


def test_another_workspaces_books_are_not_found() -> None:
    assert identity.check_workspace(ROOT, LEDGER) is LEDGER
    with pytest.raises(FleetError) as error:
        identity.check_workspace(replace(ROOT, workspace="other"), LEDGER)
    assert reason(error) == "LEDGER_NOT_FOUND"
