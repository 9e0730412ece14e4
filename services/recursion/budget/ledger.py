"""The books of a Turn's budget: dimensions, lines, states and the rules between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from services.common.errors import FieldViolation, FleetError
from services.rlm.budget.gate import Dimension

CHILD_DEPTH = 1
"""How deep children are: a constant of the product. A caller at this depth can't start any."""


class LedgerState(StrEnum):
    """Where a ledger is in its life: OPEN → SETTLING → SETTLED, or ABORTED from the first two."""

    OPEN = "open"
    SETTLING = "settling"
    SETTLED = "settled"
    ABORTED = "aborted"

    @property
    def ended(self) -> bool:
        """Whether nothing changes it any more."""
        return self in (LedgerState.SETTLED, LedgerState.ABORTED)


@dataclass(frozen=True)
class Line:
    """One dimension.

    Attributes:
        dimension: what is counted.
        limit: units that may be spent.
        used: units spent and reserved; never more than `limit`.
    """

    dimension: Dimension
    limit: int
    used: int = 0


@dataclass(frozen=True)
class Ledger:
    """A Turn's books.

    Attributes:
        turn: the Turn's id.
        session: its Session's id.
        workspace: the workspace that both belong to.
        epoch: ownership epoch of the Session.
        state: where the ledger is in its life.
        deadline: when the Turn ends at the latest.
        work_deadline: when new work ends.
        lines: one line a dimension.
        closed_at: when it ended, for the seconds it took.
    """

    turn: str
    session: str
    workspace: str
    epoch: int
    state: LedgerState
    deadline: datetime
    work_deadline: datetime
    lines: tuple[Line, ...]
    closed_at: datetime | None = None

    def limit(self, dimension: Dimension) -> int:
        """Units of `dimension` that may be spent, 0 for one without a line."""
        return next((line.limit for line in self.lines if line.dimension is dimension), 0)

    def at(self, now: datetime) -> tuple[Line, ...]:
        """The lines with the seconds that have passed by `now`, or by the ledger's end."""
        return tuple(self._elapsed(line, now) if line.dimension is Dimension.SECONDS else line for line in self.lines)

    def _elapsed(self, line: Line, now: datetime) -> Line:
        left = (self.deadline - (self.closed_at or now)).total_seconds()
        return Line(line.dimension, line.limit, used=min(line.limit, max(0, int(line.limit - left))))

    def same_terms(self, other: Ledger) -> bool:
        """Whether both were opened alike, so that a repeated OpenTurn changes nothing."""
        return self._terms() == other._terms()

    def _terms(self) -> tuple[object, ...]:
        limits = sorted((line.dimension, line.limit) for line in self.lines)
        return (self.turn, self.session, self.workspace, self.epoch, self.deadline, self.work_deadline, limits)


def check_limits(lines: Sequence[Line]) -> None:
    """Refuse limits that name a dimension twice or bring something spent already.

    Raises:
        FleetError: INVALID_ARGUMENT.
    """
    names = [line.dimension for line in lines]
    if len(set(names)) != len(names):
        raise _invalid("limits", "name every dimension at most once")
    if any(line.used for line in lines):
        raise _invalid("limits", "must have `used` 0")


def check_reservable(dimension: Dimension) -> None:
    """Refuse to reserve what passes by itself.

    Raises:
        FleetError: INVALID_ARGUMENT.
    """
    if dimension is Dimension.SECONDS:
        raise _invalid("dimension", "seconds pass by themselves and are not reserved")


def check_refund(reserved: int, unused: int) -> None:
    """Refuse to give back more than was reserved.

    Raises:
        FleetError: INVALID_ARGUMENT.
    """
    if unused > reserved:
        raise _invalid("amount", f"must be at most the {reserved} units that were reserved")


def exhausted(line: Line, wanted: int) -> FleetError:
    """The refusal of `wanted` units of a line that has fewer left."""
    left = line.limit - line.used
    advice = "go on with what you have and SUBMIT" if left == 0 else f"ask for at most {left}"
    message = (
        f"The Turn's budget of {line.dimension} has {left} of {line.limit} left and {wanted} were asked for: {advice}."
    )
    return FleetError("BUDGET_EXHAUSTED", message, _metadata(line))


def out_of_time(seconds: int) -> FleetError:
    """The refusal of new work in a Turn whose time for it, `seconds` in all, is over."""
    message = "The Turn's time for new work is over: go on with what you have and SUBMIT."
    return FleetError("BUDGET_EXHAUSTED", message, _metadata(Line(Dimension.SECONDS, limit=seconds, used=seconds)))


def closed(turn: str, state: LedgerState) -> FleetError:
    """The refusal of a ledger that grants nothing any more."""
    message = f"The Turn's budget is {state} and grants nothing more."
    return FleetError("LEDGER_CLOSED", message, {"turn": turn, "state": state})


def not_found(turn: str) -> FleetError:
    """The answer about a Turn without a ledger."""
    return FleetError("LEDGER_NOT_FOUND", f"There is no budget for Turn {turn}; OpenTurn makes it.", {"turn": turn})


def _metadata(line: Line) -> dict[str, str]:
    return {"dimension": line.dimension, "used": str(line.used), "limit": str(line.limit)}


def _invalid(field: str, description: str) -> FleetError:
    return FleetError(
        "INVALID_ARGUMENT",
        f"{field}: {description}",
        violations=(FieldViolation(field=field, description=description),),
    )
