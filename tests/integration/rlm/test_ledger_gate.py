"""The ledger gate over a real gRPC call, from threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from fleet.common.v1 import budget_pb2
from fleet.recursion.v1 import recursion_service_pb2, recursion_service_pb2_grpc

from services.common.errors import FleetError
from services.common.rpc_status import DETAILS_KEY, to_status
from services.rlm.budget.gate import Dimension, budget_exhausted, granted
from services.rlm.budget.ledger_gate import LedgerGate

LIMIT = 20


class Ledger(recursion_service_pb2_grpc.RecursionServiceServicer):
    """One dimension of one Turn."""

    def __init__(self) -> None:
        self.used = 0
        self.ids: list[str] = []
        self.tokens: set[str] = set()
        self.held: asyncio.Event | None = None

    async def Reserve(
        self, request: recursion_service_pb2.ReserveRequest, context: grpc.aio.ServicerContext
    ) -> recursion_service_pb2.ReserveResponse:
        if self.held is not None:
            await self.held.wait()
        self.tokens.add(dict(context.invocation_metadata() or ())["authorization"])
        if self.used + request.amount > LIMIT:
            refusal = budget_exhausted(Dimension.LLM_CALLS, self.used, LIMIT)
            context.set_trailing_metadata(((DETAILS_KEY, to_status(refusal).SerializeToString()),))
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, refusal.message)
        self.ids.append(request.reservation_id)
        self.used += request.amount
        return recursion_service_pb2.ReserveResponse(line=self._line(request.dimension))

    async def Refund(
        self, request: recursion_service_pb2.RefundRequest, context: grpc.aio.ServicerContext
    ) -> recursion_service_pb2.RefundResponse:
        assert request.reservation_id in self.ids
        self.used -= request.amount
        return recursion_service_pb2.RefundResponse(line=self._line(budget_pb2.BUDGET_DIMENSION_LLM_CALLS))

    def _line(self, dimension: int) -> budget_pb2.BudgetLine:
        return budget_pb2.BudgetLine(dimension=dimension, used=self.used, limit=LIMIT)  # type: ignore[arg-type]


@pytest.fixture
async def books() -> AsyncIterator[tuple[Ledger, LedgerGate]]:
    ledger, server = Ledger(), grpc.aio.server()
    recursion_service_pb2_grpc.add_RecursionServiceServicer_to_server(ledger, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = recursion_service_pb2_grpc.RecursionServiceStub(channel)
        metadata = [("authorization", "Bearer turn")]
        yield ledger, LedgerGate(stub, "turn", asyncio.get_running_loop(), metadata=metadata)
    await server.stop(None)


async def test_threads_spend_through_the_ledger_and_are_refused_by_it(books: tuple[Ledger, LedgerGate]) -> None:
    ledger, gate = books
    refusals: list[tuple[str, str, str]] = []

    def ask(_: int) -> int:
        try:
            return gate.reserve(Dimension.LLM_CALLS, 1).amount
        except FleetError as error:
            refusals.append((error.reason, error.metadata["used"], error.metadata["limit"]))
            return 0

    with ThreadPoolExecutor(8) as pool:
        granted = await asyncio.gather(*(asyncio.wrap_future(pool.submit(ask, i)) for i in range(30)))
    assert sum(granted) == LIMIT == len(set(ledger.ids))
    assert refusals == [("BUDGET_EXHAUSTED", "20", "20")] * 10
    assert ledger.tokens == {"Bearer turn"}


async def test_asking_waits_for_nothing_and_can_be_called_off(books: tuple[Ledger, LedgerGate]) -> None:
    ledger, gate = books
    ledger.held = asyncio.Event()
    first, second = (gate.ask(Dimension.LLM_CALLS, 2) for _ in range(2))
    assert not first.done()
    await asyncio.sleep(0)
    second.cancel()
    ledger.held.set()
    assert (await asyncio.to_thread(granted, first)).used == 2
    with pytest.raises(FleetError, match="no answer"):
        granted(second)
    assert ledger.used == 2


async def test_a_refund_names_its_reservation(books: tuple[Ledger, LedgerGate]) -> None:
    ledger, gate = books
    reservation = await asyncio.to_thread(gate.reserve, Dimension.LLM_CALLS, 5)
    assert (reservation.used, reservation.limit) == (5, LIMIT)
    await asyncio.to_thread(gate.refund, reservation, 3)
    assert ledger.used == 2


async def test_books_that_are_not_there_are_unavailable() -> None:
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        stub = recursion_service_pb2_grpc.RecursionServiceStub(channel)
        gate = LedgerGate(stub, "turn", asyncio.get_running_loop())
        with pytest.raises(FleetError) as refused:
            await asyncio.to_thread(gate.reserve, Dimension.TOOL_CALLS, 1)
    assert refused.value.reason == "UNAVAILABLE"
