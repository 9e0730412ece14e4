"""Children as native RLMs: real sandboxes, the real dspy.RLM, models over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fleet.recursion.v1 import child_pb2, ledger_pb2, recursion_service_pb2, recursion_service_pb2_grpc
from fleet.sandbox.v1 import files_pb2, lease_pb2, sandbox_service_pb2, sandbox_service_pb2_grpc
from google.protobuf.duration_pb2 import Duration

from services.common.channel import open_channel
from services.recursion.main import build_service
from services.rlm.budget.gate import Dimension
from services.sandbox.main import build_service as build_sandbox
from tests.fakes.scripted_llm import Reply, Request, ScriptedLlm, action
from tests.integration.recursion.rig import Turn, make_policy, open_request, refused, told

Script = Callable[[Request], Reply | str]
SCRATCH = "sessions/s1/turns/t1"
pytestmark = [pytest.mark.usefixtures("warm_llm"), pytest.mark.timeout(120)]

READ = """\
text = open(inputs[0]["local_path"]).read()
verdict = llm_query("Is this about patents? " + text)
open("report.md", "w").write("# " + text)
import os
print(os.getcwd(), sorted(os.listdir("/scratch")))"""
SUBMIT = """\
SUBMIT(answer=text + "/" + verdict, evidence=[inputs[0]["path"]], gaps=[], result_files=["report.md"])"""


@dataclass
class Bench:
    """Both services, a Root's lease, and an open Turn."""

    turn: Turn
    sandboxes: Any
    root: lease_pb2.Lease
    llm: ScriptedLlm

    def start(self, *tasks: child_pb2.ChildTask, call_id: str = "c1") -> Any:
        request = recursion_service_pb2.RunChildrenRequest(
            turn=self.turn.id,
            call_id=call_id,
            tasks=tasks,
            root_lease=self.root.name,
            root_epoch=self.root.epoch,
            scratch_path=SCRATCH,
        )
        return self.turn.stub.RunChildren(request, metadata=self.turn.metadata)

    async def put(self, path: str, data: bytes) -> None:
        file = files_pb2.StageFile(path=path, inline=data, byte_size=len(data), sha256=hashlib.sha256(data).hexdigest())
        await self.sandboxes.StageFiles(
            sandbox_service_pb2.StageFilesRequest(lease=self.root.name, epoch=self.root.epoch, files=[file])
        )

    async def children_left(self) -> list[str]:
        leases = (await self.sandboxes.ListLeases(sandbox_service_pb2.ListLeasesRequest())).leases
        return [lease.name for lease in leases if lease.kind == lease_pb2.LEASE_KIND_CHILD]


@asynccontextmanager
async def bench(root: Path, script: Script, *overrides: str, **terms: Any) -> AsyncIterator[Bench]:
    with ScriptedLlm(script) as llm:
        models = [f"llm.{role}.base_url={llm.base_url}" for role in ("root", "sub")]
        policy = make_policy(root, *models, "llm.root.model=root-model", "llm.sub.model=sub-model", *overrides)
        broker = build_sandbox(policy, env={})
        sandbox_address = await broker.start()
        policy = policy.with_addresses({"sandbox": sandbox_address})
        service = build_service(policy, env={})
        try:
            address = await service.start()
            async with (
                open_channel(sandbox_address, service="sandbox", tokens=None) as sandbox_channel,
                open_channel(address, service="recursion", tokens=None) as channel,
            ):
                sandboxes = sandbox_service_pb2_grpc.SandboxServiceStub(sandbox_channel)
                lease = await sandboxes.AcquireLease(
                    sandbox_service_pb2.AcquireLeaseRequest(
                        request_id="root",
                        kind=lease_pb2.LEASE_KIND_ROOT,
                        owner=lease_pb2.LeaseOwner(session="s1", turn="t1"),
                        ttl=Duration(seconds=300),
                    )
                )
                stub = recursion_service_pb2_grpc.RecursionServiceStub(channel)
                opened = await stub.OpenTurn(open_request("t1", **terms))
                yield Bench(Turn(stub, "t1", opened.turn_token), sandboxes, lease, llm)
        finally:
            await service.stop(0.2)
            await broker.stop(0.2)


def reader(request: Request) -> Reply | str:
    if request.model == "sub-model":
        return "yes"
    return action(SUBMIT) if "verdict = " in request.prompt else action(READ)


async def test_children_read_ask_write_and_leave_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, reader) as b:
        await b.put("attachments/a1/x.txt", b"alpha")
        await b.put("attachments/a2/y.txt", b"beta")
        tasks = [
            child_pb2.ChildTask(task="read x", inputs=["attachments/a1/x.txt"]),
            child_pb2.ChildTask(task="read y", inputs=["attachments/a2/y.txt"]),
        ]
        events, outcomes = await told(b.start(*tasks))
        assert [outcome.error.message for outcome in outcomes] == ["", ""]
        assert [outcome.answer for outcome in outcomes] == ["alpha/yes", "beta/yes"]
        assert [list(outcome.evidence) for outcome in outcomes] == [["attachments/a1/x.txt"], ["attachments/a2/y.txt"]]
        assert {outcome.termination for outcome in outcomes} == {"submit"}
        assert {outcome.iterations for outcome in outcomes} == {2}
        assert [file.path for outcome in outcomes for file in outcome.result_files] == [
            "children/1/report.md",
            "children/2/report.md",
        ]
        assert {(use.role, use.calls) for use in outcomes[0].usage.models} == {("child", 2), ("sub", 1)}
        kinds = [event.WhichOneof("payload") for event in events if event.index == 0]
        assert kinds[0] == "begun"
        assert kinds.count("step") == 2
        assert kinds.count("model_call") == 3
        assert kinds[-1] == "ended"
        assert await b.turn.used(Dimension.LLM_CALLS) == 2
        assert await b.turn.used(Dimension.OUTPUT_BYTES) > 0
        assert await b.children_left() == []
        # A later child may read what an earlier one wrote.
        again = child_pb2.ChildTask(task="read on", inputs=["children/2/report.md"])
        (outcome,) = (await told(b.start(again, call_id="c2")))[1]
        assert outcome.answer == "# beta/yes"
        assert (await b.turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED


async def test_a_child_has_no_children_and_no_tools_of_the_root(tmp_path: Path) -> None:
    probe = """\
names = [name for name in ("rlm_query", "rlm_query_batched", "read_attachment", "history") if name in globals()]
SUBMIT(answer=str(names), evidence=[], gaps=[], result_files=[])"""
    async with bench(tmp_path, lambda request: action(probe)) as b:
        (outcome,) = (await told(b.start(child_pb2.ChildTask(task="look around"))))[1]
        assert outcome.answer == "[]"


async def test_a_links_target_never_leaves_the_sandbox(tmp_path: Path) -> None:
    link = """\
import os
os.symlink("/etc/passwd", "link.txt")
SUBMIT(answer="done", evidence=[], gaps=[], result_files=["link.txt"])"""
    async with bench(tmp_path, lambda request: action(link)) as b:
        (outcome,) = (await told(b.start(child_pb2.ChildTask(task="link"))))[1]
        assert (outcome.status, outcome.error.category) == (child_pb2.CHILD_STATUS_FAILED, "invalid_results")
        assert await b.children_left() == []


async def test_a_provider_that_is_down_is_the_childs_outcome(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda request: Reply("no such key sk-secret", status=401)) as b:
        (outcome,) = (await told(b.start(child_pb2.ChildTask(task="ask"))))[1]
        assert (outcome.status, outcome.error.category) == (child_pb2.CHILD_STATUS_FAILED, "model")
        assert "sk-secret" not in outcome.error.message
        assert (await b.turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED


async def test_a_child_keeps_to_its_own_limits(tmp_path: Path) -> None:
    def ask_for_ever(request: Request) -> str:
        return "fine" if request.model == "sub-model" else action("for n in range(9): print(llm_query(str(n)))")

    overrides = ("rlm.recursion_child_max_llm_calls=3", "rlm.recursion_child_max_iters=3")
    async with bench(tmp_path, ask_for_ever, *overrides) as b:
        await told(b.start(child_pb2.ChildTask(task="ask")))
        assert await b.turn.used(Dimension.LLM_CALLS) == 3


@pytest.mark.parametrize("code", ["while True: pass", "import time\ntime.sleep(1000)"])
async def test_abort_stops_a_busy_child_within_a_second(tmp_path: Path, code: str) -> None:
    async with bench(tmp_path, lambda request: action(code)) as b:
        parts = aiter(b.start(child_pb2.ChildTask(task="spin")))
        while (await anext(parts)).event.WhichOneof("payload") != "step":
            pass
        begin = time.monotonic()
        await b.turn.abort()
        async with refused("TURN_CANCELLED"):
            async for _ in parts:
                pass
        assert time.monotonic() - begin < 2
        async with asyncio.timeout(10):
            while (await b.turn.budget()).unresolved_children:
                await asyncio.sleep(0.02)
        assert await b.children_left() == []


async def test_a_child_that_waits_for_its_model_is_timed_out(tmp_path: Path) -> None:
    terms = {"seconds": 30.0, "work_seconds": 2.0}
    async with bench(tmp_path, lambda request: Reply("late", delay=60), **terms) as b:
        (outcome,) = (await told(b.start(child_pb2.ChildTask(task="wait"))))[1]
        assert outcome.status == child_pb2.CHILD_STATUS_TIMED_OUT
        assert all(request.aborted.wait(5) for request in b.llm.requests)
        assert (await b.turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED
        assert await b.children_left() == []
