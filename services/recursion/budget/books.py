"""Spending from a Turn's ledger, for callers over gRPC and for the children that run here."""

from __future__ import annotations

from services.common.clock import Clock
from services.recursion.budget.ledger import Line, check_reservable
from services.recursion.store.reservations import ReservationStore
from services.rlm.budget.gate import Dimension


class Books:
    """Grants and takes back units at the present moment."""

    def __init__(self, reservations: ReservationStore, clock: Clock) -> None:
        self._reservations = reservations
        self._clock = clock

    async def reserve(self, turn: str, reservation: str, dimension: Dimension, amount: int) -> Line:
        """Grant all of `amount` or nothing; the same reservation id counts once.

        Raises:
            FleetError: INVALID_ARGUMENT, or see `ReservationStore.reserve`.
        """
        check_reservable(dimension)
        return await self._reservations.reserve(turn, reservation, dimension, amount, self._clock.now())

    async def refund(self, turn: str, reservation: str, unused: int) -> Line:
        """Take back units of a reservation, `unused` of them in all.

        Raises:
            FleetError: see `ReservationStore.refund`.
        """
        return await self._reservations.refund(turn, reservation, unused)
