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
                status = to_status(part)
                context.set_trailing_metadata(((DETAILS_KEY, status.SerializeToString()),))
                code = next(code for code in grpc.StatusCode if code.value[0] == part.code)
                await context.abort(code, part.message)
            elif isinstance(part, asyncio.Event):
                await part.wait()
            else:
                yield part

    async def GetBudget(
        self, request: recursion_service_pb2.GetBudgetRequest, context: grpc.aio.ServicerContext
    ) -> ledger_pb2.Budget:
        lines = [budget_pb2.BudgetLine(dimension=budget_pb2.BUDGET_DIMENSION_CHILD_CALLS, used=2, limit=4)]
        return ledger_pb2.Budget(turn=request.turn, lines=lines)


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
