"""A recursion service over a real socket that says what a test wrote down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
from fleet.common.v1 import budget_pb2
from fleet.recursion.v1 import ledger_pb2, recursion_service_pb2, recursion_service_pb2_grpc

from services.common.errors import FleetError
from services.common.rpc_status import DETAILS_KEY, to_status

Part = recursion_service_pb2.RunChildrenResponse | FleetError | asyncio.Event
Script = Callable[[recursion_service_pb2.RunChildrenRequest, int], list[Part]]


class FakeRecursion(recursion_service_pb2_grpc.RecursionServiceServicer):
    """`script` gives the parts of each RunChildren call from its request and its number, from 0.

    An event among the parts is waited for; an error ends the call.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.calls: list[recursion_service_pb2.RunChildrenRequest] = []
        self.authorizations: list[str] = []
        self.opened: list[recursion_service_pb2.OpenTurnRequest] = []
        self.aborted: list[recursion_service_pb2.AbortTurnRequest] = []
        self.settled = 0
        self.opening: asyncio.Event | None = None
        self.settling: asyncio.Event | None = None
        self.settlement: FleetError | None = None

    async def RunChildren(
        self,
        request: recursion_service_pb2.RunChildrenRequest,
        context: grpc.aio.ServicerContext,
    ) -> AsyncIterator[recursion_service_pb2.RunChildrenResponse]:
        self.calls.append(request)
        metadata = dict(context.invocation_metadata() or ())
        self.authorizations.append(str(metadata.get("authorization")))
        for part in self.script(request, len(self.calls) - 1):
            if isinstance(part, FleetError):
                await _refuse(context, part)
            elif isinstance(part, asyncio.Event):
                await part.wait()
            else:
                yield part

    async def GetBudget(
        self, request: recursion_service_pb2.GetBudgetRequest, context: grpc.aio.ServicerContext
    ) -> ledger_pb2.Budget:
        lines = [budget_pb2.BudgetLine(dimension=budget_pb2.BUDGET_DIMENSION_CHILD_CALLS, used=2, limit=4)]
        return ledger_pb2.Budget(turn=request.turn, lines=lines)

    async def OpenTurn(
        self, request: recursion_service_pb2.OpenTurnRequest, context: grpc.aio.ServicerContext
    ) -> recursion_service_pb2.OpenTurnResponse:
        self.opened.append(request)
        if self.opening is not None:
            await self.opening.wait()
        return recursion_service_pb2.OpenTurnResponse(turn_token="turn-token")

    async def Reserve(
        self, request: recursion_service_pb2.ReserveRequest, context: grpc.aio.ServicerContext
    ) -> recursion_service_pb2.ReserveResponse:
        line = budget_pb2.BudgetLine(dimension=request.dimension, used=request.amount, limit=100)
        return recursion_service_pb2.ReserveResponse(line=line)

    async def SettleTurn(
        self, request: recursion_service_pb2.SettleTurnRequest, context: grpc.aio.ServicerContext
    ) -> ledger_pb2.Budget:
        self.settled += 1
        if self.settling is not None:
            await self.settling.wait()
        if self.settlement is not None:
            await _refuse(context, self.settlement)
        return self._books(request.turn)

    async def AbortTurn(
        self, request: recursion_service_pb2.AbortTurnRequest, context: grpc.aio.ServicerContext
    ) -> ledger_pb2.Budget:
        self.aborted.append(request)
        return self._books(request.turn)

    def _books(self, turn: str) -> ledger_pb2.Budget:
        line = budget_pb2.BudgetLine(dimension=budget_pb2.BUDGET_DIMENSION_LLM_CALLS, used=7, limit=32)
        return ledger_pb2.Budget(turn=turn, lines=[line])


async def _refuse(context: grpc.aio.ServicerContext, error: FleetError) -> None:
    context.set_trailing_metadata(((DETAILS_KEY, to_status(error).SerializeToString()),))
    code = next(code for code in grpc.StatusCode if code.value[0] == error.code)
    await context.abort(code, error.message)


@asynccontextmanager
async def served(service: FakeRecursion) -> AsyncIterator[grpc.aio.Channel]:
    """The service on a free port, and a channel to it."""
    server = grpc.aio.server()
    recursion_service_pb2_grpc.add_RecursionServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(None)
