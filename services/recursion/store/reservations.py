"""Reservations and refunds.

A grant is one atomic `UPDATE … WHERE used + n <= allowed` of one row, which the table's CHECK backs. Whether the
ledger is open stands in that row too (`open_until`), so that a settlement and a reservation can't pass each other.
"""

from __future__ import annotations

from datetime import datetime
from typing import NoReturn

from services.common.errors import FieldViolation, FleetError
from services.recursion.budget.ledger import LedgerState, Line, check_refund, closed, exhausted, not_found, out_of_time
from services.recursion.store.instants import to_micros
from services.recursion.store.statements import Statements, Transactions, Values
from services.rlm.budget.gate import Dimension

_INSERT = (
    "INSERT INTO reservations (turn, id, dimension, amount, unused)"
    " SELECT turn, :id, :dimension, CAST(:amount AS BIGINT), 0 FROM ledgers WHERE turn = :turn"
    " ON CONFLICT (turn, id) DO NOTHING"
)
_GRANT = (
    "UPDATE ledger_lines SET used = used + :amount"
    " WHERE turn = :turn AND dimension = :dimension AND open_until > :now AND used + :amount <= allowed"
    " RETURNING used, allowed"
)
_FIND = "SELECT dimension, amount, unused FROM reservations WHERE turn = :turn AND id = :id"
_REFUND = "UPDATE reservations SET unused = :unused WHERE turn = :turn AND id = :id AND unused = :known"
_GIVE_BACK = (
    "UPDATE ledger_lines SET used = used - :amount WHERE turn = :turn AND dimension = :dimension"
    " RETURNING used, allowed"
)
_LINE = "SELECT used, allowed FROM ledger_lines WHERE turn = :turn AND dimension = :dimension"
_STATE = "SELECT state, deadline FROM ledgers WHERE turn = :turn"


class ReservationStore:
    """Grants and takes back units. Each method is one transaction."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def reserve(self, turn: str, reservation: str, dimension: Dimension, amount: int, now: datetime) -> Line:
        """Grant all of `amount` or nothing; an id that was granted before counts nothing.

        Returns the dimension afterwards.

        Raises:
            FleetError: LEDGER_NOT_FOUND, LEDGER_CLOSED, BUDGET_EXHAUSTED, or RESERVATION_CONFLICT for an id that was
                used with another dimension or amount.
        """

        def work(statements: Statements) -> Line:
            values: Values = {"turn": turn, "id": reservation, "dimension": dimension.value, "amount": amount}
            if statements.change(_INSERT, values):
                return take(statements, turn, dimension, amount, now)
            return _repeated(statements, turn, reservation, dimension, amount)

        return await self._transactions.run(work)

    async def refund(self, turn: str, reservation: str, unused: int) -> Line:
        """Set how many units of a reservation are unused in all; a smaller or repeated number changes nothing.

        Returns the dimension afterwards.

        Raises:
            FleetError: LEDGER_NOT_FOUND, or INVALID_ARGUMENT for an unknown reservation or more than it holds.
        """

        def work(statements: Statements) -> Line:
            dimension, amount, known = _find(statements, turn, reservation)
            check_refund(amount, unused)
            if unused <= known:
                return _line(statements, turn, dimension)
            values: Values = {"turn": turn, "id": reservation, "unused": unused, "known": known}
            if not statements.change(_REFUND, values):
                # Between the two statements somebody else refunded; on SQLite that can't be.
                raise FleetError("UNAVAILABLE", "The reservation is being refunded by another call.")
            return give_back(statements, turn, dimension, unused - known)

        return await self._transactions.run(work)


def take(statements: Statements, turn: str, dimension: Dimension, amount: int, now: datetime) -> Line:
    """Take units of a line in a transaction, which fails with what this raises.

    Raises:
        FleetError: LEDGER_NOT_FOUND, LEDGER_CLOSED or BUDGET_EXHAUSTED.
    """
    values = {"turn": turn, "dimension": dimension.value, "amount": amount, "now": to_micros(now)}
    row = statements.row(_GRANT, values)
    if row is None:
        _refuse(statements, turn, dimension, amount, now)
    return Line(dimension, used=row[0], limit=row[1])


def give_back(statements: Statements, turn: str, dimension: Dimension, amount: int) -> Line:
    """Give units of a line back in a transaction.

    Raises:
        FleetError: LEDGER_NOT_FOUND.
    """
    values = {"turn": turn, "dimension": dimension.value, "amount": amount}
    row = statements.row(_GIVE_BACK, values)
    if row is None:
        raise not_found(turn)
    return Line(dimension, used=row[0], limit=row[1])


def _refuse(statements: Statements, turn: str, dimension: Dimension, amount: int, now: datetime) -> NoReturn:
    row = statements.row(_STATE, {"turn": turn})
    if row is None:
        raise not_found(turn)
    state, deadline = LedgerState(row[0]), int(row[1])
    if state is not LedgerState.OPEN:
        raise closed(turn, state)
    if to_micros(now) >= deadline:
        seconds = _line(statements, turn, Dimension.SECONDS).limit
        raise out_of_time(seconds)
    raise exhausted(_line(statements, turn, dimension), amount)


def _repeated(statements: Statements, turn: str, reservation: str, dimension: Dimension, amount: int) -> Line:
    known, reserved, _ = _find(statements, turn, reservation)
    if (known, reserved) != (dimension, amount):
        message = f"The reservation id was used for {reserved} of {known}."
        raise FleetError("RESERVATION_CONFLICT", message, {"reservation_id": reservation})
    return _line(statements, turn, dimension)


def _find(statements: Statements, turn: str, reservation: str) -> tuple[Dimension, int, int]:
    row = statements.row(_FIND, {"turn": turn, "id": reservation})
    if row is not None:
        return Dimension(row[0]), int(row[1]), int(row[2])
    if statements.row(_STATE, {"turn": turn}) is None:
        raise not_found(turn)
    violation = FieldViolation("reservation_id", "names no reservation of this Turn")
    raise FleetError("INVALID_ARGUMENT", f"Reservation {reservation} is not known.", violations=[violation])


def _line(statements: Statements, turn: str, dimension: Dimension) -> Line:
    """The line as it is; one that the ledger doesn't have allows nothing."""
    row = statements.row(_LINE, {"turn": turn, "dimension": dimension.value})
    return Line(dimension, limit=0) if row is None else Line(dimension, used=row[0], limit=row[1])
