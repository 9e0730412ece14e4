"""`rlm_query` and `rlm_query_batched` over a real socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fleet.recursion.v1 import child_pb2, recursion_service_pb2, recursion_service_pb2_grpc

from services.common.errors import FleetError
from services.rlm.budget.gate import LocalGate
from services.rlm.events import RlmEvent
from services.rlm.invocation.scope import InvocationScope
from services.session.running.clients.recursion import TurnBooks
from services.session.running.tools.recursion import RecursionTools, RootLease
from services.session.running.turn_events import Payload
from tests.fakes.recursion_service import FakeRecursion, Part, Script, served

DOWN = FleetError("UNAVAILABLE", "gone")


class Sink:
    def __init__(self) -> None:
        self.events: list[RlmEvent] = []

    def emit(self, event: RlmEvent) -> None:
        self.events.append(event)


def event(index: int, **payload: Any) -> Part:
    return recursion_service_pb2.RunChildrenResponse(event=child_pb2.ChildEvent(index=index, **payload))


def begun(index: int) -> Part:
    return event(index, begun=child_pb2.ChildBegun(child_id=f"c{index}", task="t"))


def outcome(index: int) -> child_pb2.ChildOutcome:
    return child_pb2.ChildOutcome(
        status=child_pb2.CHILD_STATUS_COMPLETED, child_id=f"c{index}", answer=f"answer {index}", termination="submit"
    )


def outcomes(count: int) -> Part:
    found = recursion_service_pb2.ChildOutcomes(outcomes=[outcome(index) for index in range(count)])
    return recursion_service_pb2.RunChildrenResponse(outcomes=found)


class Bench:
    """The tools, what they told, and the service behind them."""

    def __init__(self, tools: RecursionTools, service: FakeRecursion, told: list[Payload], sink: Sink) -> None:
        self.tools = tools
        self.service = service
        self.told = told
        self.sink = sink

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.told]


@asynccontextmanager
async def bench(script: Script, pauses: tuple[float, ...] = (0.01, 0.01)) -> AsyncIterator[Bench]:
    service, told, sink = FakeRecursion(script), list[Payload](), Sink()
    async with served(service) as channel:
        end = time.monotonic() + 60
        scope = InvocationScope(
            sink=sink, gate=LocalGate({}), tools={}, deadline=end, work_deadline=end - 10, recursion=True, max_iters=5
        )
        stub = recursion_service_pb2_grpc.RecursionServiceStub(channel)
        lease = RootLease("leases/1", 3, "sessions/s/turns/t")
        tools = RecursionTools(TurnBooks(stub, "t", "token"), lease, scope, told.append, pauses=pauses)
        yield Bench(tools, service, told, sink)
        await tools.close()


async def test_outcomes_come_in_input_order_with_every_field() -> None:
    async with bench(lambda request, call: [begun(1), begun(0), outcomes(2)]) as b:
        result: Any = await b.tools.rlm_query_batched([{"task": "a", "inputs": ["attachments/1/x"]}, {"task": "b"}])
        assert [each["answer"] for each in result] == ["answer 0", "answer 1"]
        assert set(result[0]) == {
            "status", "child_id", "answer", "evidence", "gaps", "result_files", "source_manifest_sha256",
            "termination", "usage", "error",
        }  # fmt: skip
        assert result[0]["error"] is None
        assert b.kinds == ["child_started", "child_started", "child_completed", "child_completed"]
        assert b.service.authorizations == ["Bearer token"]
        (sent,) = b.service.calls
        assert (sent.root_lease, sent.root_epoch, sent.scratch_path) == ("leases/1", 3, "sessions/s/turns/t")
        assert b.tools.started == 2


async def test_a_broken_connection_is_attached_again_with_the_same_call() -> None:
    def script(request: recursion_service_pb2.RunChildrenRequest, call: int) -> list[Part]:
        return [begun(0), DOWN] if call < 2 else [begun(0), outcomes(1)]

    async with bench(script) as b:
        result: Any = await b.tools.rlm_query("look")
        assert result["status"] == "completed"
        assert len({request.call_id for request in b.service.calls}) == 1
        assert b.kinds == ["child_started", "child_completed"]


async def test_a_service_that_stays_away_gives_failed_outcomes() -> None:
    async with bench(lambda request, call: [begun(0), DOWN]) as b:
        result: Any = await b.tools.rlm_query_batched([{"task": "a"}, {"task": "b"}])
        assert [each["status"] for each in result] == ["failed", "failed"]
        assert result[0]["error"]["category"] == "unavailable"
        assert b.kinds == ["child_started", "child_completed", "child_completed"]


@pytest.mark.parametrize(("dimension", "used"), [("child_calls", "4"), ("seconds", "3")])
async def test_a_spent_budget_is_said_plainly_and_told_once(dimension: str, used: str) -> None:
    refusal = FleetError("BUDGET_EXHAUSTED", "x", {"dimension": dimension, "used": used, "limit": "4"})
    async with bench(lambda request, call: [refusal]) as b:
        for _ in range(2):
            with pytest.raises(FleetError, match=f"{dimension} is spent") as caught:
                await b.tools.rlm_query("look")
            assert caught.value.reason == "BUDGET_EXHAUSTED"
        assert [type(each).__name__ for each in b.sink.events] == ["BudgetExhausted"]


async def test_an_interrupted_call_goes_on_being_followed() -> None:
    gate = asyncio.Event()
    async with bench(lambda request, call: [begun(0), gate, outcomes(1)]) as b:
        call = asyncio.create_task(b.tools.rlm_query("look"))
        while not b.told:
            await asyncio.sleep(0.005)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        gate.set()
        await b.tools.finish(5)
        assert [message.status for kind, message in b.told if kind == "child_completed"] == ["completed"]  # type: ignore[attr-defined]


async def test_closing_tells_open_children_as_cancelled() -> None:
    async with bench(lambda request, call: [begun(0), asyncio.Event()]) as b:
        call = asyncio.create_task(b.tools.rlm_query("look"))
        while not b.told:
            await asyncio.sleep(0.005)
        await b.tools.close()
        with pytest.raises(asyncio.CancelledError):
            await call
        kind, message = b.told[-1]
        assert (kind, message.status, message.cleanup) == ("child_completed", "cancelled", "pending")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "queries",
    ["abc", [1], [{"task": 1}], [{"inputs": []}], [{"task": "a", "inputs": "attachments/1/x"}], [{"task": "a", "x": 1}],
     [{"task": "a"}] * 65],
)  # fmt: skip
async def test_wrong_types_are_refused_before_anything_is_sent(queries: Any) -> None:
    async with bench(lambda request, call: [outcomes(1)]) as b:
        with pytest.raises(FleetError, match="INVALID_ARGUMENT"):
            await b.tools.rlm_query_batched(queries)
        assert b.service.calls == []


async def test_hard_texts_are_sent_cleaned_and_cut() -> None:
    async with bench(lambda request, call: [outcomes(1)]) as b:
        await b.tools.rlm_query("\ud800" + "x" * 60_000, ["\udfff"] * 300)
        (sent,) = b.service.calls
        assert sent.tasks[0].task.startswith("�x")
        assert len(sent.tasks[0].task) == 50_000
        assert len(sent.tasks[0].inputs) == 256
