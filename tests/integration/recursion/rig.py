"""A real recursion service on a free port, and calls to it as a session service makes them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from fleet.common.v1 import budget_pb2
from fleet.recursion.v1 import child_pb2, recursion_service_pb2, recursion_service_pb2_grpc

from config.loader import load
from config.policy import Policy
from services.common import keys
from services.common.channel import open_channel
from services.common.errors import FleetError
from services.common.rpc_status import from_rpc_error
from services.common.tokens import Claims
from services.recursion.main import RecursionServer, build_service
from services.rlm.budget.gate import Dimension, to_wire
from tests.fakes.child_engine import ScriptedEngine
from tests.fakes.child_sandboxes import FakeBroker

LIMITS: Mapping[Dimension, int] = {
    Dimension.ITERATIONS: 12,
    Dimension.LLM_CALLS: 32,
    Dimension.TOOL_CALLS: 256,
    Dimension.CHILD_CALLS: 4,
    Dimension.OUTPUT_BYTES: 2_000_000,
    Dimension.SECONDS: 90,
}
SCRATCH = "sessions/s1/turns/t1"

_numbers = itertools.count(1)


def make_policy(root: Path, *overrides: str) -> Policy:
    return load(profile="test", env={}, overrides=[f"storage.data_root={root}", *overrides], components=())


@dataclass
class Turn:
    """An open Turn, as its owner sees it."""

    stub: recursion_service_pb2_grpc.RecursionServiceAsyncStub
    id: str
    token: str
    calls: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),)

    async def reserve(self, reservation: str, dimension: Dimension, amount: int = 1) -> budget_pb2.BudgetLine:
        request = recursion_service_pb2.ReserveRequest(
            turn=self.id, reservation_id=reservation, dimension=to_wire(dimension), amount=amount
        )
        return (await self.stub.Reserve(request, metadata=self.metadata)).line

    async def refund(self, reservation: str, amount: int) -> budget_pb2.BudgetLine:
        request = recursion_service_pb2.RefundRequest(turn=self.id, reservation_id=reservation, amount=amount)
        return (await self.stub.Refund(request, metadata=self.metadata)).line

    async def budget(self) -> Any:
        request = recursion_service_pb2.GetBudgetRequest(turn=self.id)
        return await self.stub.GetBudget(request, metadata=self.metadata)

    async def used(self, dimension: Dimension) -> int:
        return int(next(line.used for line in (await self.budget()).lines if line.dimension == to_wire(dimension)))

    async def settle(self, timeout: float = 20.0) -> Any:
        request = recursion_service_pb2.SettleTurnRequest(turn=self.id)
        return await self.stub.SettleTurn(request, metadata=self.metadata, timeout=timeout)

    async def abort(self, epoch: int = 1, metadata: Any = None) -> Any:
        request = recursion_service_pb2.AbortTurnRequest(turn=self.id, epoch=epoch)
        return await self.stub.AbortTurn(request, metadata=self.metadata if metadata is None else metadata)

    def start(
        self,
        *tasks: child_pb2.ChildTask | str,
        call_id: str = "",
        token: str = "",
        attachments: Sequence[child_pb2.ChildAttachment] = (),
    ) -> Any:
        """The stream of a call for children."""
        request = recursion_service_pb2.RunChildrenRequest(
            turn=self.id,
            call_id=call_id or f"call-{next(self.calls)}",
            tasks=[child_pb2.ChildTask(task=task) if isinstance(task, str) else task for task in tasks],
            root_lease="leases/root",
            root_epoch=1,
            scratch_path=SCRATCH,
            attachments=attachments,
        )
        return self.stub.RunChildren(request, metadata=(("authorization", f"Bearer {token or self.token}"),))

    async def run(self, *tasks: child_pb2.ChildTask | str, call_id: str = "") -> list[child_pb2.ChildOutcome]:
        """The outcomes of a call for children."""
        return (await told(self.start(*tasks, call_id=call_id)))[1]


async def told(parts: AsyncIterable[Any]) -> tuple[list[child_pb2.ChildEvent], list[child_pb2.ChildOutcome]]:
    events: list[child_pb2.ChildEvent] = []
    outcomes: list[child_pb2.ChildOutcome] = []
    async for response in parts:
        if response.HasField("event"):
            events.append(response.event)
        else:
            outcomes.extend(response.outcomes.outcomes)
    return events, outcomes


@dataclass
class Replica:
    """One running service."""

    server: RecursionServer
    policy: Policy
    address: str
    stub: recursion_service_pb2_grpc.RecursionServiceAsyncStub
    broker: FakeBroker
    engine: ScriptedEngine

    async def open(
        self,
        limits: Mapping[Dimension, int] | None = None,
        *,
        turn: str = "",
        seconds: float = 60.0,
        work_seconds: float | None = None,
        epoch: int = 1,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> Turn:
        name = turn or f"t{next(_numbers)}"
        request = open_request(name, limits, seconds=seconds, work_seconds=work_seconds, epoch=epoch)
        response = await self.stub.OpenTurn(request, metadata=metadata)
        return Turn(self.stub, name, response.turn_token)

    def token(self, **claims: Any) -> str:
        given = {"workspace": "local", "subject": "tester", **claims}
        return keys.signer(self.policy, {}).sign(Claims(**given), 60)


def open_request(
    turn: str,
    limits: Mapping[Dimension, int] | None = None,
    *,
    seconds: float = 60.0,
    work_seconds: float | None = None,
    epoch: int = 1,
) -> recursion_service_pb2.OpenTurnRequest:
    now = datetime.now(UTC)
    request = recursion_service_pb2.OpenTurnRequest(
        turn=turn,
        session="s1",
        epoch=epoch,
        limits=[
            budget_pb2.BudgetLine(dimension=to_wire(dimension), limit=limit)
            for dimension, limit in (LIMITS if limits is None else limits).items()
        ],
    )
    request.deadline.FromDatetime(now + timedelta(seconds=seconds))
    request.work_deadline.FromDatetime(now + timedelta(seconds=seconds if work_seconds is None else work_seconds))
    return request


@asynccontextmanager
async def serving(
    policy: Policy,
    *,
    env: Mapping[str, str] | None = None,
    broker: FakeBroker | None = None,
    engine: ScriptedEngine | None = None,
    grace: float = 0.1,
) -> AsyncIterator[Replica]:
    broker, engine = broker or FakeBroker(), engine or ScriptedEngine()
    server = build_service(policy, env=env or {}, brokers=broker, engine=engine)
    address = await server.start()
    try:
        async with open_channel(address, service="recursion", tokens=None) as channel:
            stub = recursion_service_pb2_grpc.RecursionServiceStub(channel)
            yield Replica(server, policy, address, stub, broker, engine)
    finally:
        await server.stop(grace)


class Refusal:
    """The error that a block failed with."""

    error: FleetError


@asynccontextmanager
async def refused(reason: str) -> AsyncIterator[Refusal]:
    """The block must fail with this reason."""
    caught = Refusal()
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        yield caught
    caught.error = from_rpc_error(failure.value)
    assert caught.error.reason == reason, caught.error
