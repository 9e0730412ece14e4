"""What is left when a replica dies, and who finishes it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fleet.recursion.v1 import child_pb2, ledger_pb2, recursion_service_pb2_grpc

from services.common.channel import open_channel
from services.recursion.children.ports import Answer, Job
from services.rlm.budget.gate import Dimension
from tests.fakes.child_engine import ScriptedEngine, answer
from tests.integration.recursion.rig import Turn, make_policy, open_request, refused, serving, told
from tests.integration.recursion.test_children import forever

QUICK = ("runtime.lease_seconds=1.5", "runtime.heartbeat_seconds=0.2")
ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def victim(root: Path, url: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.recursion.victim",
        str(root),
        url,
        *QUICK,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'gen'}"},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_after_kill_9_children_are_failed_and_their_sandboxes_removed(tmp_path: Path, database_url: str) -> None:
    async with victim(tmp_path, database_url) as (process, address):
        async with open_channel(address, service="recursion", tokens=None) as channel:
            stub = recursion_service_pb2_grpc.RecursionServiceStub(channel)
            token = (await stub.OpenTurn(open_request("t1"))).turn_token
            turn = Turn(stub, "t1", token)
            await turn.reserve("r1", Dimension.LLM_CALLS, 5)
            parts = aiter(turn.start("a", "b", call_id="c1"))
            children = {(await anext(parts)).event.begun.child_id for _ in range(2)}
            process.send_signal(signal.SIGKILL)
            await process.wait()
            async with refused("UNAVAILABLE"):
                await anext(parts)

    env = {"FLEET_RECURSION_DATABASE_URL": database_url}
    async with serving(make_policy(tmp_path, *QUICK), env=env) as replica:
        turn = Turn(replica.stub, "t1", token)
        # Nothing that was granted is granted again.
        assert (await turn.reserve("r1", Dimension.LLM_CALLS, 5)).used == 5
        # The caller attaches again by the call's id and gets outcomes.
        events, outcomes = await told(turn.start("a", "b", call_id="c1"))
        assert {event.WhichOneof("payload") for event in events} == {"ended"}
        assert [outcome.status for outcome in outcomes] == [child_pb2.CHILD_STATUS_FAILED] * 2
        assert {outcome.child_id for outcome in outcomes} == children
        assert (await turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED
        assert set(replica.broker.removals) == children
        assert await turn.used(Dimension.CHILD_CALLS) == 2


async def test_a_live_replicas_children_are_never_touched(tmp_path: Path, postgres_database: str) -> None:
    env = {"FLEET_RECURSION_DATABASE_URL": postgres_database}
    go = asyncio.Event()

    async def wait(job: Job) -> Answer:
        await go.wait()
        return answer("still mine")

    first_root, second_root = tmp_path / "first", tmp_path / "second"
    async with serving(make_policy(first_root, *QUICK), env=env, engine=ScriptedEngine(wait)) as first:
        turn = await first.open(turn="t1")
        running = asyncio.create_task(told(turn.start("a", call_id="c1")))
        async with serving(make_policy(second_root, *QUICK), env=env) as second:
            elsewhere = Turn(second.stub, "t1", second.token(turn="t1"))
            following = asyncio.create_task(told(elsewhere.start("a", call_id="c1")))
            # Far longer than a lease: only renewal keeps the child.
            await asyncio.sleep(2.0)
            assert second.broker.removals == []
            assert len((await elsewhere.budget()).unresolved_children) == 1
            go.set()
            assert (await running)[1][0].answer == "still mine"
            assert (await following)[1][0].answer == "still mine"


async def test_a_turn_that_nobody_ends_is_aborted_after_its_deadline(tmp_path: Path) -> None:
    policy = make_policy(tmp_path, *QUICK, "rlm.settle_seconds=0.3")
    async with serving(policy, engine=ScriptedEngine(forever)) as replica:
        turn = await replica.open(seconds=0.5)
        async with asyncio.timeout(10):
            while (await turn.budget()).state != ledger_pb2.LEDGER_STATE_ABORTED:
                await asyncio.sleep(0.05)
        async with refused("LEDGER_CLOSED"):
            await turn.reserve("r1", Dimension.LLM_CALLS)


async def test_shutdown_ends_children_and_leaves_nothing_running(tmp_path: Path) -> None:
    async with serving(make_policy(tmp_path), engine=ScriptedEngine(forever)) as replica:
        turn = await replica.open()
        parts = aiter(turn.start("a", call_id="c1"))
        await anext(parts)
        await replica.server.stop(0.1)
        assert replica.broker.sandboxes == {}
        ended = [part.event.ended async for part in _until_broken(parts)]
        assert [outcome.status for outcome in ended] == [child_pb2.CHILD_STATUS_FAILED]
    async with serving(make_policy(tmp_path)) as successor:
        again = Turn(successor.stub, turn.id, turn.token)
        assert (await again.run("a", call_id="c1"))[0].error.category == "unavailable"
        assert (await again.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED
    assert not [task for task in asyncio.all_tasks() if "child" in task.get_name()]


async def _until_broken(parts: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """What comes before the connection breaks with UNAVAILABLE, at which a caller attaches again."""
    async with refused("UNAVAILABLE"):
        async for part in parts:
            yield part
