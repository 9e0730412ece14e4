"""Children over gRPC: outcomes, events, limits, cancellation and settlement, with scripted engines."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from fleet.recursion.v1 import child_pb2, ledger_pb2

from services.common.errors import FleetError
from services.recursion.children.ports import Answer, Job
from services.rlm.budget.gate import BudgetGate, Dimension
from services.rlm.events import Code, LmCompleted
from tests.fakes.child_engine import ScriptedEngine, answer, echo
from tests.fakes.child_sandboxes import LINK, FakeBroker
from tests.integration.recursion.rig import SCRATCH, Replica, make_policy, refused, serving, told

COMPLETED, FAILED = child_pb2.CHILD_STATUS_COMPLETED, child_pb2.CHILD_STATUS_FAILED
TIMED_OUT, CANCELLED = child_pb2.CHILD_STATUS_TIMED_OUT, child_pb2.CHILD_STATUS_CANCELLED
NOT_STARTED = child_pb2.CHILD_STATUS_NOT_STARTED
CHILDREN = Dimension.CHILD_CALLS


def task(text: str = "look", *inputs: str, context: str = "") -> child_pb2.ChildTask:
    return child_pb2.ChildTask(task=text, inputs=inputs, context=context)


def by_task(**scripts: Callable[[Job], Awaitable[Answer]]) -> Callable[[Job], Awaitable[Answer]]:
    return lambda job: scripts.get(str(job.inputs["task"]), echo)(job)


async def forever(job: Job) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError


async def test_outcomes_come_in_input_order_with_their_events(any_replica: Replica) -> None:
    first_may_end = asyncio.Event()

    async def slow(job: Job) -> Answer:
        job.sink.emit(Code(1, "# read the file\nx = 1"))
        job.sink.emit(LmCompleted("c1", "child", "m", "action", 11, 7, 5, ""))
        await first_may_end.wait()
        return answer("slow answer", evidence=["a", "b"], gaps=["c"])

    async def quick(job: Job) -> Answer:
        first_may_end.set()
        return answer("quick answer")

    any_replica.engine.script = by_task(slow=slow, quick=quick)
    turn = await any_replica.open()
    events, outcomes = await told(turn.start("slow", "quick"))
    assert [outcome.answer for outcome in outcomes] == ["slow answer", "quick answer"]
    assert [outcome.status for outcome in outcomes] == [COMPLETED, COMPLETED]
    assert list(outcomes[0].evidence) == ["a", "b"]
    assert list(outcomes[0].gaps) == ["c"]
    assert outcomes[0].termination == "submit"
    assert outcomes[0].cleanup == child_pb2.CLEANUP_STATE_CONFIRMED
    assert outcomes[0].usage.models[0].prompt_tokens == 11
    mine = [event.WhichOneof("payload") for event in events if event.index == 0]
    assert mine == ["begun", "step", "model_call", "ended"]
    step = next(event.step for event in events if event.WhichOneof("payload") == "step")
    assert (step.iteration, step.detail) == (1, "read the file")
    assert await turn.used(CHILDREN) == 2
    assert any_replica.broker.sandboxes == {}
    assert any_replica.broker.identities == {("local", "s1", turn.id)}
    assert (await turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED


async def test_bad_tasks_are_outcomes_of_their_own_and_cost_nothing(replica: Replica) -> None:
    replica.broker.workspace = {"files/.env": b"KEY=1", "files/a.txt": b"a"}
    turn = await replica.open({CHILDREN: 12})
    outcomes = await turn.run(
        task("  "),
        task("look", "files/.env"),
        task("look", "../secret"),
        task("look", "files/none.txt"),
        task("look", "files"),
        task("x" * 2001),
        task("look", "files/a.txt", "files/a.txt"),
        task("good", "files/a.txt"),
    )
    assert [outcome.status for outcome in outcomes] == [FAILED] * 7 + [COMPLETED]
    assert [outcome.error.category for outcome in outcomes] == [
        "invalid_task",
        "refused_name",
        "invalid_inputs",
        "invalid_inputs",
        "refused_name",
        "invalid_task",
        "invalid_inputs",
        "",
    ]
    assert all(outcome.child_id == "" for outcome in outcomes[:7])
    assert all(outcome.cleanup == child_pb2.CLEANUP_STATE_NONE for outcome in outcomes[:7])
    assert await turn.used(CHILDREN) == 1
    assert len(replica.engine.jobs) == 1


@pytest.mark.parametrize("named", ["attachments/a1/x.txt", "attachments"])
async def test_attachments_are_what_was_uploaded_whatever_the_root_made_of_its_copy(
    replica: Replica, named: str
) -> None:
    replica.broker.blobs = {"blob/a1": b"uploaded"}
    replica.broker.workspace = {"attachments/a1/x.txt": b"tampered", "attachments/own.txt": b"the Root's own"}
    seen: dict[str, bytes] = {}

    async def work(job: Job) -> Answer:
        seen.update(replica.broker.files_of(job.child))
        return answer("read")

    replica.engine.script = work
    turn = await replica.open()
    attached = child_pb2.ChildAttachment(
        path="attachments/a1/x.txt", blob_key="blob/a1", byte_size=8, sha256=hashlib.sha256(b"uploaded").hexdigest()
    )
    _, (outcome,) = await told(turn.start(task("read", named), attachments=[attached]))
    assert outcome.status == COMPLETED
    assert seen.pop("inputs/attachments/a1/x.txt") == b"uploaded"
    assert seen == ({} if named != "attachments" else {"inputs/attachments/own.txt": b"the Root's own"})


async def test_a_child_sees_its_inputs_and_the_root_gets_its_files(replica: Replica) -> None:
    replica.broker.workspace = {"attachments/a1/x.txt": b"hello", "files/d/1.txt": b"1", "files/d/2.txt": b"2"}

    async def work(job: Job) -> Answer:
        inside = replica.broker.files_of(job.child)
        assert inside["inputs/attachments/a1/x.txt"] == b"hello"
        inside["out/report.md"] = b"# report"
        return answer("see the report", result_files=["/scratch/out/report.md"])

    replica.engine.script = work
    turn = await replica.open()
    (outcome,) = await turn.run(task("report", "attachments/a1/x.txt", "files/d", context="short"))
    entry = {
        "path": "attachments/a1/x.txt",
        "local_path": "/scratch/inputs/attachments/a1/x.txt",
        "byte_size": 5,
        "sha256": hashlib.sha256(b"hello").hexdigest(),
    }
    job = replica.engine.jobs[0]
    assert job.inputs["task"] == "report"
    assert job.inputs["context"] == "short"
    inputs = job.inputs["inputs"]
    assert isinstance(inputs, list)
    assert len(inputs) == 3
    assert inputs[0] == entry
    (file,) = outcome.result_files
    assert (file.path, file.byte_size) == ("children/1/out/report.md", 8)
    assert file.local_path == f"/workspace/{SCRATCH}/children/1/out/report.md"
    assert replica.broker.delivered == {f"{SCRATCH}/children/1/out/report.md": b"# report"}
    assert len(outcome.source_manifest_sha256) == 64

    # A later child may have an earlier one's results.
    replica.engine.script = echo
    (second,) = await turn.run(task("read on", "children/1"))
    assert second.status == COMPLETED
    staged = replica.engine.jobs[1].inputs["inputs"]
    assert isinstance(staged, list)
    assert [each["path"] for each in staged if isinstance(each, dict)] == ["children/1/out/report.md"]


@pytest.mark.parametrize(
    ("declared", "files"),
    [
        (["missing.txt"], {}),
        (["link"], {"link": LINK}),
        (["../x"], {}),
        (["a.txt", "a.txt"], {"a.txt": b"a"}),
        (["a.txt", "A.txt"], {"a.txt": b"a", "A.txt": b"b"}),
        (["big"], {"big": b"x" * 50_001}),
        ([f"{number}.txt" for number in range(17)], {}),
    ],
)
async def test_result_files_that_break_the_rules_are_an_outcome(
    replica: Replica, declared: list[str], files: dict[str, bytes]
) -> None:
    async def work(job: Job) -> Answer:
        replica.broker.files_of(job.child).update(files)
        return answer("done", result_files=declared)

    replica.engine.script = by_task(bad=work)
    turn = await replica.open()
    bad, good = await turn.run("bad", "good")
    assert (bad.status, bad.error.category) == (FAILED, "invalid_results")
    assert good.status == COMPLETED
    assert replica.broker.delivered == {}
    assert await turn.used(CHILDREN) == 2


async def test_failures_of_one_child_leave_its_siblings_alone(replica: Replica) -> None:
    async def model(job: Job) -> Answer:
        raise FleetError("MODEL_UNAVAILABLE", "The child's provider could not be reached.")

    async def bug(job: Job) -> Answer:
        raise KeyError("secret detail")

    async def blank(job: Job) -> Answer:
        return answer("  ")

    replica.engine.script = by_task(model=model, bug=bug, blank=blank)
    turn = await replica.open()
    outcomes = await turn.run("model", "bug", "blank", "good")
    assert [outcome.error.category for outcome in outcomes] == ["model", "unavailable", "invalid_output", ""]
    assert outcomes[1].error.message == "The child failed unexpectedly."
    assert outcomes[0].usage.models[0].calls == 1
    assert outcomes[3].status == COMPLETED
    assert (await turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED


async def test_a_full_broker_gives_the_reservation_back(replica: Replica) -> None:
    replica.broker.refusals = [FleetError("SANDBOX_CAPACITY", "No sandbox became free.")]
    turn = await replica.open()
    outcomes = await turn.run("a", "b")
    assert sorted(outcome.status for outcome in outcomes) == sorted([NOT_STARTED, COMPLETED])
    refusal = next(outcome for outcome in outcomes if outcome.status == NOT_STARTED)
    assert (refusal.error.category, refusal.child_id) == ("capacity", "")
    assert refusal.cleanup == child_pb2.CLEANUP_STATE_NONE
    assert await turn.used(CHILDREN) == 1


async def test_an_answer_that_got_lost_is_cleaned_up_though_never_started(replica: Replica) -> None:
    replica.broker.refusals = [FleetError("UNAVAILABLE", "The service can't be reached.")]
    turn = await replica.open()
    (outcome,) = await turn.run("a")
    assert (outcome.status, outcome.error.category) == (NOT_STARTED, "unavailable")
    assert outcome.cleanup == child_pb2.CLEANUP_STATE_PENDING
    assert await turn.used(CHILDREN) == 0
    assert (await turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED
    assert len(replica.broker.removals) == 1


async def test_more_children_than_are_left_start_nothing(replica: Replica) -> None:
    turn = await replica.open({CHILDREN: 4})
    async with refused("BUDGET_EXHAUSTED") as refusal:
        await turn.run("1", "2", "3", "4", "5")
    assert dict(refusal.error.metadata) == {"dimension": "child_calls", "used": "0", "limit": "4"}
    assert replica.engine.jobs == []
    assert len(await turn.run("1", "2", "3", "4")) == 4
    async with refused("BUDGET_EXHAUSTED"):
        await turn.run("one more")


async def test_no_more_children_run_at_once_than_the_policy_says(tmp_path: Path) -> None:
    running = most = 0
    pair = asyncio.Barrier(2)

    async def count(job: Job) -> Answer:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await pair.wait()
        running -= 1
        return answer("counted")

    policy = make_policy(tmp_path, "rlm.recursion_max_parallel_children=2", "rlm.recursion_max_calls=12")
    async with serving(policy, engine=ScriptedEngine(count)) as replica:
        turn = await replica.open({CHILDREN: 12})
        results = await asyncio.gather(turn.run(*"abcdef"), turn.run(*"ghijkl"))
        assert [len(result) for result in results] == [6, 6]
        assert most == 2
        assert len({child.child_id for result in results for child in result}) == 12


async def test_a_known_call_is_attached_to_and_told_from_the_beginning(replica: Replica) -> None:
    go = asyncio.Event()

    async def wait(job: Job) -> Answer:
        await go.wait()
        return answer("waited")

    replica.engine.script = wait
    turn = await replica.open()
    first = turn.start("a", "b", call_id="c1")
    begun = [await first.read(), await first.read()]
    assert {part.event.WhichOneof("payload") for part in begun} == {"begun"}
    first.cancel()  # The caller goes away; the children don't notice.
    second = asyncio.create_task(told(turn.start("a", "b", call_id="c1")))
    third = asyncio.create_task(told(turn.start("a", "b", call_id="c1")))
    go.set()
    (events, outcomes), (_, same) = await second, await third
    assert [event.WhichOneof("payload") for event in events].count("begun") == 2
    assert [outcome.answer for outcome in outcomes] == ["waited", "waited"]
    assert same == outcomes
    assert len(replica.engine.jobs) == 2
    assert await turn.used(CHILDREN) == 2
    async with refused("RESERVATION_CONFLICT"):
        await turn.run("other", call_id="c1")
    # Also when the Turn's books are closed: what was granted was granted.
    await turn.settle()
    assert await turn.run("a", "b", call_id="c1") == outcomes


async def test_children_that_are_not_done_in_time_are_timed_out(replica: Replica) -> None:
    replica.engine.script = by_task(slow=forever)
    replica.broker.workspace = {"files/a.txt": b"a"}
    turn = await replica.open(seconds=30, work_seconds=1.0)
    begin = time.monotonic()
    slow, quick = await turn.run("slow", "quick")
    assert 0.7 < time.monotonic() - begin < 5
    assert (slow.status, slow.error.category) == (TIMED_OUT, "timeout")
    assert slow.child_id
    assert slow.cleanup == child_pb2.CLEANUP_STATE_PENDING
    assert quick.status == COMPLETED
    async with refused("BUDGET_EXHAUSTED") as refusal:
        await turn.run("too late")
    assert refusal.error.metadata["dimension"] == "seconds"
    assert (await turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED
    assert replica.broker.sandboxes == {}


async def test_an_aborted_turn_cancels_its_children_within_a_second(replica: Replica) -> None:
    replica.engine.script = forever
    turn = await replica.open({CHILDREN: 8})
    parts = aiter(turn.start("a", "b", "c", "d", "e"))
    for _ in range(4):
        assert (await anext(parts)).event.WhichOneof("payload") == "begun"
    begin = time.monotonic()
    await turn.abort()
    ended = []
    async with refused("TURN_CANCELLED"):
        async for part in parts:
            ended.append(part.event.ended)
    assert time.monotonic() - begin < 1
    assert sorted(outcome.status for outcome in ended) == sorted([CANCELLED] * 4 + [NOT_STARTED])
    while (await turn.budget()).unresolved_children:
        await asyncio.sleep(0.01)
    assert replica.broker.sandboxes == {}


async def test_settlement_waits_for_children_and_names_those_that_do_not_end(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def wait(job: Job) -> Answer:
        await go.wait()
        return answer("waited")

    async with serving(make_policy(tmp_path, "rlm.settle_seconds=0.2"), engine=ScriptedEngine(wait)) as replica:
        turn = await replica.open()
        parts = aiter(turn.start("a"))
        child = (await anext(parts)).event.begun.child_id
        async with refused("CHILDREN_UNRESOLVED") as refusal:
            await turn.settle()
        assert refusal.error.metadata["children"] == child
        async with refused("LEDGER_CLOSED"):
            await turn.run("another")
        go.set()
        assert (await told(parts))[1][0].status == COMPLETED
        assert (await turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED


async def test_settlement_answers_within_the_callers_patience(replica: Replica) -> None:
    replica.engine.script = forever
    turn = await replica.open()
    stream = turn.start("a")
    await stream.read()
    begin = time.monotonic()
    async with refused("CHILDREN_UNRESOLVED"):
        await turn.settle(timeout=1.0)
    assert time.monotonic() - begin < 1.0
    await turn.abort()


async def test_a_sandbox_that_does_not_go_is_fatal_to_the_call(tmp_path: Path) -> None:
    broker = FakeBroker()
    broker.stubborn = 4
    async with serving(make_policy(tmp_path, "rlm.child_grace_seconds=0.15"), broker=broker) as replica:
        turn = await replica.open()
        async with refused("CHILDREN_UNRESOLVED"):
            await turn.run("a")
        # The clean-up goes on by itself, and then the Turn can be settled.
        assert (await turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED
        assert broker.sandboxes == {}


async def test_a_child_spends_from_the_shared_budget_within_its_own_share(tmp_path: Path) -> None:
    granted: list[int] = []

    def ask(gate: BudgetGate) -> None:
        reserve = partial(gate.reserve, Dimension.LLM_CALLS, 1)
        with pytest.raises(FleetError, match="BUDGET_EXHAUSTED"):
            granted.extend(reservation.used for reservation in iter(reserve, None))

    async def spend(job: Job) -> Answer:
        await asyncio.to_thread(ask, job.gate)
        return answer("spent")

    policy = make_policy(tmp_path, "rlm.recursion_child_max_llm_calls=3")
    async with serving(policy, engine=ScriptedEngine(spend)) as replica:
        turn = await replica.open({CHILDREN: 4, Dimension.LLM_CALLS: 8})
        await turn.reserve("root", Dimension.LLM_CALLS, 1)
        await turn.run("a")
        assert len(granted) == 3
        await turn.run("b", "c", "d")
        assert len(granted) == 7
        assert await turn.used(Dimension.LLM_CALLS) == 8
