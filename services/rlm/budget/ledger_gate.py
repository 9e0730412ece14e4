"""The budget gate over gRPC: every unit is asked of the recursion service's ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from fleet.common.v1 import budget_pb2
from fleet.recursion.v1 import recursion_service_pb2, recursion_service_pb2_grpc

from services.common.errors import FleetError
from services.common.ids import new_id
from services.common.rpc_status import translated_errors
from services.rlm.budget.gate import Dimension, Reservation, to_wire

T = TypeVar("T")

_ANSWER_SECONDS = 10.0


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

    def reserve(self, dimension: Dimension, amount: int) -> Reservation:
        """Grant all of `amount` or raise; see BudgetGate."""
        request = recursion_service_pb2.ReserveRequest(
            turn=self._turn, reservation_id=new_id(), dimension=to_wire(dimension), amount=amount
        )
        line = self._wait(self._reserve(request))
        return Reservation(request.reservation_id, dimension, amount, line.used, line.limit)

    def refund(self, reservation: Reservation, amount: int) -> None:
        """Give units back; see BudgetGate."""
        request = recursion_service_pb2.RefundRequest(turn=self._turn, reservation_id=reservation.id, amount=amount)
        self._wait(self._refund(request))

    async def _reserve(self, request: recursion_service_pb2.ReserveRequest) -> budget_pb2.BudgetLine:
        with translated_errors():
            response = await self._stub.Reserve(request, metadata=self._metadata, timeout=_ANSWER_SECONDS)
        return response.line

    async def _refund(self, request: recursion_service_pb2.RefundRequest) -> budget_pb2.BudgetLine:
        with translated_errors():
            response = await self._stub.Refund(request, metadata=self._metadata, timeout=_ANSWER_SECONDS)
        return response.line

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(_ANSWER_SECONDS + 1)
        except (TimeoutError, CancelledError) as error:
            future.cancel()
            raise FleetError("UNAVAILABLE", "The Turn's budget gave no answer in time.") from error
