"""fleet.recursion.v1.RecursionService over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
from fleet.recursion.v1 import ledger_pb2, recursion_service_pb2, recursion_service_pb2_grpc

from services.common.clock import Clock
from services.common.request_context import current_principal
from services.recursion import translate
from services.recursion.service import RecursionService
from services.rlm.budget.gate import from_wire

_REPLY_SECONDS = 0.5
"""Time kept of the caller's deadline, so that a settlement's own answer still arrives."""

Context = grpc.aio.ServicerContext[Any, Any]


class RecursionServicer(recursion_service_pb2_grpc.RecursionServiceServicer):
    """Translates; the use cases are in `service.py`."""

    def __init__(self, service: RecursionService, clock: Clock) -> None:
        self._service = service
        self._clock = clock

    async def OpenTurn(  # noqa: N802 - gRPC's name
        self, request: recursion_service_pb2.OpenTurnRequest, context: Context
    ) -> recursion_service_pb2.OpenTurnResponse:
        """Open a Turn's ledger."""
        caller = current_principal()
        ledger, token = await self._service.open_turn(caller, translate.ledger_of(request, caller))
        books = translate.budget(ledger, self._clock.now(), ())
        return recursion_service_pb2.OpenTurnResponse(turn_token=token, budget=books)

    async def Reserve(  # noqa: N802 - gRPC's name
        self, request: recursion_service_pb2.ReserveRequest, context: Context
    ) -> recursion_service_pb2.ReserveResponse:
        """Reserve units of a dimension."""
        line = await self._service.reserve(
            current_principal(), request.turn, request.reservation_id, from_wire(request.dimension), request.amount
        )
        return recursion_service_pb2.ReserveResponse(line=translate.budget_line(line))

    async def Refund(  # noqa: N802 - gRPC's name
        self, request: recursion_service_pb2.RefundRequest, context: Context
    ) -> recursion_service_pb2.RefundResponse:
        """Give units of a reservation back."""
        line = await self._service.refund(current_principal(), request.turn, request.reservation_id, request.amount)
        return recursion_service_pb2.RefundResponse(line=translate.budget_line(line))

    async def RunChildren(  # noqa: N802 - gRPC's name
        self, request: recursion_service_pb2.RunChildrenRequest, context: Context
    ) -> AsyncIterator[recursion_service_pb2.RunChildrenResponse]:
        """Run children or attach to their run."""
        async with aclosing(self._service.run_children(current_principal(), translate.call_of(request))) as parts:
            async for part in parts:
                yield translate.response(part)

    async def GetBudget(  # noqa: N802 - gRPC's name
        self, request: recursion_service_pb2.GetBudgetRequest, context: Context
    ) -> ledger_pb2.Budget:
        """Return a Turn's books."""
        ledger, unresolved = await self._service.budget(current_principal(), request.turn)
        return translate.budget(ledger, self._clock.now(), unresolved)

    async def SettleTurn(  # noqa: N802 - gRPC's name
        self, request: recursion_service_pb2.SettleTurnRequest, context: Context
    ) -> ledger_pb2.Budget:
        """Settle a Turn's books."""
        remaining = context.time_remaining()
        patience = None if remaining is None else max(0.0, remaining - _REPLY_SECONDS)
        ledger = await self._service.settle(current_principal(), request.turn, patience)
        return translate.budget(ledger, self._clock.now(), ())

    async def AbortTurn(  # noqa: N802 - gRPC's name
        self, request: recursion_service_pb2.AbortTurnRequest, context: Context
    ) -> ledger_pb2.Budget:
        """Abort a Turn's books and its children."""
        ledger, unresolved = await self._service.abort(current_principal(), request.turn, request.epoch)
        return translate.budget(ledger, self._clock.now(), unresolved)
