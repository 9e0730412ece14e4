"""The budget as the harness sees it: dimensions, reservations and the gate that grants them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fleet.common.v1 import budget_pb2

from services.common.errors import FleetError
from services.common.ids import new_id


class Dimension(StrEnum):
    """What an invocation spends."""

    ITERATIONS = "iterations"
    LLM_CALLS = "llm_calls"
    TOOL_CALLS = "tool_calls"
    CHILD_CALLS = "child_calls"
    OUTPUT_BYTES = "output_bytes"
    SECONDS = "seconds"


_WIRE: Mapping[Dimension, budget_pb2.BudgetDimension.ValueType] = {
    Dimension.ITERATIONS: budget_pb2.BUDGET_DIMENSION_ITERATIONS,
    Dimension.LLM_CALLS: budget_pb2.BUDGET_DIMENSION_LLM_CALLS,
    Dimension.TOOL_CALLS: budget_pb2.BUDGET_DIMENSION_TOOL_CALLS,
    Dimension.CHILD_CALLS: budget_pb2.BUDGET_DIMENSION_CHILD_CALLS,
    Dimension.OUTPUT_BYTES: budget_pb2.BUDGET_DIMENSION_OUTPUT_BYTES,
    Dimension.SECONDS: budget_pb2.BUDGET_DIMENSION_SECONDS,
}
_BY_WIRE: Mapping[int, Dimension] = {wire: dimension for dimension, wire in _WIRE.items()}


def to_wire(dimension: Dimension) -> budget_pb2.BudgetDimension.ValueType:
    """Return the protobuf value of `dimension`."""
    return _WIRE[dimension]


def from_wire(value: int) -> Dimension:
    """Return the dimension of a protobuf value.

    Raises:
        ValueError: the value names no dimension.
    """
    if value not in _BY_WIRE:
        raise ValueError(f"{value} is not a budget dimension")
    return _BY_WIRE[value]


@dataclass(frozen=True)
class Reservation:
    """Units that were granted.

    Attributes:
        id: names the reservation in a refund.
        dimension: which dimension.
        amount: units granted.
        used: the dimension's units spent and reserved after the grant.
        limit: the dimension's units in all.
    """

    id: str
    dimension: Dimension
    amount: int
    used: int
    limit: int


ANSWER_SECONDS = 10.0
"""How long the books may take to answer."""

Asked = Future[Reservation]
"""A reservation that was asked for; `granted` waits for it, and it is cancelled when nobody needs it any more."""


class BudgetGate(Protocol):
    """Grants units before they are spent. Called from worker and tool threads; blocks, bounded by a time limit."""

    def ask(self, dimension: Dimension, amount: int) -> Asked:
        """Begin to reserve; returns at once when the books are elsewhere, and never raises what `reserve` would."""

    def reserve(self, dimension: Dimension, amount: int) -> Reservation:
        """Grant all of `amount` (≥ 1) or nothing.

        Raises:
            FleetError: BUDGET_EXHAUSTED (metadata `dimension`, `used`, `limit`), LEDGER_CLOSED, or UNAVAILABLE when
                the books can't be reached.
        """

    def refund(self, reservation: Reservation, amount: int) -> None:
        """Give back `amount` units of `reservation` that were not spent.

        Raises:
            FleetError: the books can't be reached.
        """


def budget_exhausted(dimension: Dimension, used: int, limit: int) -> FleetError:
    """Return the error of a dimension with too little left."""
    return FleetError(
        "BUDGET_EXHAUSTED",
        f"The budget of {dimension} has too little left: {used} of {limit} are used.",
        {"dimension": str(dimension), "used": str(used), "limit": str(limit)},
    )


def granted(asked: Asked) -> Reservation:
    """Wait for a reservation.

    Raises:
        FleetError: see `BudgetGate.reserve`.
    """
    try:
        return asked.result(ANSWER_SECONDS + 1)
    except (TimeoutError, CancelledError) as error:
        asked.cancel()
        raise FleetError("UNAVAILABLE", "The Turn's budget gave no answer in time.") from error


def answered(gate: BudgetGate, dimension: Dimension, amount: int) -> Asked:
    """Reserve, for a gate whose books are at hand: the answer is there when this returns."""
    asked = Asked()
    try:
        asked.set_result(gate.reserve(dimension, amount))
    except FleetError as error:
        asked.set_exception(error)
    return asked


class LocalGate:
    """A gate in memory, for budgets that only one process spends, such as a child's own steps.

    Dimensions without a limit are never refused and count nothing.
    """

    def __init__(self, limits: Mapping[Dimension, int]) -> None:
        self._limits = dict(limits)
        self._used = dict.fromkeys(limits, 0)
        self._lock = threading.Lock()

    def ask(self, dimension: Dimension, amount: int) -> Asked:
        """Reserve at once."""
        return answered(self, dimension, amount)

    def reserve(self, dimension: Dimension, amount: int) -> Reservation:
        """Grant all of `amount` or raise BUDGET_EXHAUSTED."""
        with self._lock:
            limit = self._limits.get(dimension)
            if limit is None:
                return Reservation(new_id(), dimension, amount, 0, 0)
            used = self._used[dimension] + amount
            if used > limit:
                raise budget_exhausted(dimension, self._used[dimension], limit)
            self._used[dimension] = used
            return Reservation(new_id(), dimension, amount, used, limit)

    def refund(self, reservation: Reservation, amount: int) -> None:
        """Give units back; a dimension without a limit has nothing to give back to."""
        with self._lock:
            if reservation.dimension in self._used:
                self._used[reservation.dimension] -= min(amount, reservation.amount)


class CappedGate:
    """A shared gate with smaller local caps in front, such as a child's own share of the Turn's model calls.

    The local cap is asked first, so that what it refuses never reaches the shared books.
    """

    def __init__(self, shared: BudgetGate, caps: Mapping[Dimension, int]) -> None:
        self._shared = shared
        self._caps = LocalGate(caps)

    def ask(self, dimension: Dimension, amount: int) -> Asked:
        """Reserve at once."""
        return answered(self, dimension, amount)

    def reserve(self, dimension: Dimension, amount: int) -> Reservation:
        """Grant `amount` when both the cap and the shared books allow it."""
        local = self._caps.reserve(dimension, amount)
        try:
            return self._shared.reserve(dimension, amount)
        except BaseException:
            self._caps.refund(local, amount)
            raise

    def refund(self, reservation: Reservation, amount: int) -> None:
        """Give units back to both."""
        self._caps.refund(reservation, amount)
        self._shared.refund(reservation, amount)
