"""The budget gate over gRPC: every unit is asked of the recursion service's ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError

from fleet.recursion.v1 import recursion_service_pb2, recursion_service_pb2_grpc

from services.common.errors import FleetError
from services.common.ids import new_id
from services.common.rpc_status import translated_errors
from services.rlm.budget.gate import ANSWER_SECONDS, Asked, Dimension, Reservation, granted, to_wire


class LedgerGate:
    """Reserves in one Turn's ledger; called from worker and tool threads, never from the event loop.

    A reservation whose reply was lost is asked again under the same id, so that it counts once.
    """

    def __init__(
        self,
        stub: recursion_service_pb2_grpc.RecursionServiceAsyncStub,
        turn: str,
        loop: asyncio.AbstractEventLoop,
        *,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Use an open ledger.

        Args:
            stub: the recursion service's stub.
            turn: the Turn's id.
            loop: the event loop that the stub's channel belongs to.
            metadata: the Turn's credential.
        """
        self._stub = stub
        self._turn = turn
        self._loop = loop
        self._metadata = tuple(metadata)

    def ask(self, dimension: Dimension, amount: int) -> Asked:
        """Send the question; see BudgetGate."""
        return asyncio.run_coroutine_threadsafe(self._reserve(dimension, amount), self._loop)

    def reserve(self, dimension: Dimension, amount: int) -> Reservation:
        """Grant all of `amount` or raise; see BudgetGate."""
        return granted(self.ask(dimension, amount))

    def refund(self, reservation: Reservation, amount: int) -> None:
        """Give units back; see BudgetGate."""
        request = recursion_service_pb2.RefundRequest(turn=self._turn, reservation_id=reservation.id, amount=amount)
        future = asyncio.run_coroutine_threadsafe(self._refund(request), self._loop)
        try:
            future.result(ANSWER_SECONDS + 1)
        except (TimeoutError, CancelledError) as error:
            future.cancel()
            raise FleetError("UNAVAILABLE", "The Turn's budget gave no answer in time.") from error

    async def _reserve(self, dimension: Dimension, amount: int) -> Reservation:
        request = recursion_service_pb2.ReserveRequest(
            turn=self._turn, reservation_id=new_id(), dimension=to_wire(dimension), amount=amount
        )
        with translated_errors():
            response = await self._stub.Reserve(request, metadata=self._metadata, timeout=ANSWER_SECONDS)
        return Reservation(request.reservation_id, dimension, amount, response.line.used, response.line.limit)

    async def _refund(self, request: recursion_service_pb2.RefundRequest) -> None:
        with translated_errors():
            await self._stub.Refund(request, metadata=self._metadata, timeout=ANSWER_SECONDS)
