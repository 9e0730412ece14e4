"""What a child spends: its own steps, its share of model calls, and the Turn's shared books."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import CancelledError

from services.common.errors import FleetError
from services.common.ids import new_id
from services.recursion.budget.books import Books
from services.recursion.budget.ledger import Line
from services.rlm.budget.gate import Asked, BudgetGate, CappedGate, Dimension, LocalGate, Reservation, answered

_ANSWER_SECONDS = 15.0


class SharedGate:
    """A Turn's ledger as a blocking gate for the threads of its children."""

    def __init__(self, books: Books, turn: str, loop: asyncio.AbstractEventLoop) -> None:
        self._books = books
        self._turn = turn
        self._loop = loop

    def ask(self, dimension: Dimension, amount: int) -> Asked:
        """Reserve at once."""
        return answered(self, dimension, amount)

    def reserve(self, dimension: Dimension, amount: int) -> Reservation:
        """Grant all of `amount` or raise; see BudgetGate."""
        reservation = f"child-{new_id()}"
        line = self._wait(self._books.reserve(self._turn, reservation, dimension, amount))
        return Reservation(reservation, dimension, amount, line.used, line.limit)

    def refund(self, reservation: Reservation, amount: int) -> None:
        """Give units back; see BudgetGate."""
        self._wait(self._books.refund(self._turn, reservation.id, amount))

    def _wait(self, call: Coroutine[object, object, Line]) -> Line:
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(_ANSWER_SECONDS)
        except (TimeoutError, CancelledError) as error:
            future.cancel()
            raise FleetError("UNAVAILABLE", "The Turn's budget gave no answer in time.") from error


class ChildGate:
    """The gate of one child: its steps are its own, its model calls capped, everything else the Turn's."""

    def __init__(self, shared: BudgetGate, *, max_iters: int, max_llm_calls: int) -> None:
        self._own = LocalGate({Dimension.ITERATIONS: max_iters})
        self._shared = CappedGate(shared, {Dimension.LLM_CALLS: max_llm_calls})

    def ask(self, dimension: Dimension, amount: int) -> Asked:
        """Begin to reserve; see BudgetGate."""
        return self._gate(dimension).ask(dimension, amount)

    def reserve(self, dimension: Dimension, amount: int) -> Reservation:
        """Grant all of `amount` or raise; see BudgetGate."""
        return self._gate(dimension).reserve(dimension, amount)

    def refund(self, reservation: Reservation, amount: int) -> None:
        """Give units back; see BudgetGate."""
        self._gate(reservation.dimension).refund(reservation, amount)

    def _gate(self, dimension: Dimension) -> BudgetGate:
        return self._own if dimension is Dimension.ITERATIONS else self._shared
