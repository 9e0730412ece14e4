"""One child from its task to its settled books."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from fleet.common.v1 import budget_pb2
from fleet.recursion.v1 import child_pb2, recursion_service_pb2
from fleet.recursion.v1.recursion_service_pb2_grpc import RecursionServiceStub
from fleet.sandbox.v1 import lease_pb2
from fleet.sandbox.v1.sandbox_service_pb2_grpc import SandboxServiceStub

from cli.doctor.check import TIMEOUT_SECONDS, CheckFailed
from cli.doctor.sandbox import leased
from services.common.channel import open_channel
from services.common.ids import new_id

if TYPE_CHECKING:
    from fleet.recursion.v1.recursion_service_pb2_grpc import RecursionServiceAsyncStub

TASK = "Answer with the word ready."

LIMITS = {
    budget_pb2.BUDGET_DIMENSION_ITERATIONS: 4,
    budget_pb2.BUDGET_DIMENSION_LLM_CALLS: 4,
    budget_pb2.BUDGET_DIMENSION_TOOL_CALLS: 16,
    budget_pb2.BUDGET_DIMENSION_CHILD_CALLS: 1,
    budget_pb2.BUDGET_DIMENSION_OUTPUT_BYTES: 100_000,
    budget_pb2.BUDGET_DIMENSION_SECONDS: int(TIMEOUT_SECONDS),
}


async def recursion(sandbox_address: str, address: str) -> str:
    """Open a ledger, run one child, settle the ledger."""
    async with (
        open_channel(sandbox_address, service="sandbox", tokens=None) as sandbox_channel,
        open_channel(address, service="recursion", tokens=None) as channel,
        leased(SandboxServiceStub(sandbox_channel), lease_pb2.LEASE_KIND_ROOT) as lease,
    ):
        stub = RecursionServiceStub(channel)
        turn = new_id()
        opened = await stub.OpenTurn(_open_request(turn))
        metadata = (("authorization", f"Bearer {opened.turn_token}"),)
        outcome = await _run_child(stub, turn, lease, metadata)
        await stub.SettleTurn(recursion_service_pb2.SettleTurnRequest(turn=turn), metadata=metadata)
    if outcome.status != child_pb2.CHILD_STATUS_COMPLETED:
        status = child_pb2.ChildStatus.Name(outcome.status).removeprefix("CHILD_STATUS_").lower()
        raise CheckFailed(f"the child ended {status}: {outcome.error.message}")
    return f"one child answered in {outcome.iterations} steps; the books are settled"


def _open_request(turn: str) -> recursion_service_pb2.OpenTurnRequest:
    lines = [budget_pb2.BudgetLine(dimension=dimension, limit=limit) for dimension, limit in LIMITS.items()]
    request = recursion_service_pb2.OpenTurnRequest(turn=turn, session="doctor", epoch=1, limits=lines)
    deadline = datetime.now(UTC) + timedelta(seconds=TIMEOUT_SECONDS)
    request.deadline.FromDatetime(deadline)
    request.work_deadline.FromDatetime(deadline)
    return request


async def _run_child(
    stub: RecursionServiceAsyncStub, turn: str, lease: lease_pb2.Lease, metadata: tuple[tuple[str, str], ...]
) -> child_pb2.ChildOutcome:
    request = recursion_service_pb2.RunChildrenRequest(
        turn=turn,
        call_id="doctor",
        tasks=[child_pb2.ChildTask(task=TASK)],
        root_lease=lease.name,
        root_epoch=lease.epoch,
        scratch_path=f"sessions/doctor/turns/{turn}",
    )
    async for message in stub.RunChildren(request, metadata=metadata, timeout=TIMEOUT_SECONDS):
        if message.WhichOneof("part") == "outcomes":
            return message.outcomes.outcomes[0]
    raise CheckFailed("the stream ended before the outcome")
