"""Turns through the real services: a native RLM, a sandbox, a ledger and a scripted provider."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from fleet.common.v1 import budget_pb2
from fleet.session.v1 import turn_pb2
from google.protobuf.duration_pb2 import Duration

from tests.fakes.scripted_llm import Reply, Request, Script, action, fields
from tests.integration.session_running.rig import Event, Stack, answer, kinds, last, of, running

pytestmark = pytest.mark.usefixtures("warm_llm")

SUBMIT_X = action("SUBMIT(answer=str(x))")


async def test_two_turns_share_globals_and_the_second_sees_the_first_in_its_history(tmp_path: Path) -> None:
    steps = [
        action("x = 41\ndef twice(n):\n    return 2 * n"),
        SUBMIT_X,
        action("print(x, twice(4), len(history), history[0]['request'], history[0]['answer'])"),
        action("SUBMIT(answer=f'{x + 1} {twice(2)} {len(history)} {history[0][\"answer\"]}')"),
    ]
    async with running(tmp_path, {"root": steps}) as s:
        session = await s.client.session()
        first = await s.ask(session, "remember 41")
        assert answer(first) == "41"
        (ready,) = of(first, "sandbox_ready")
        assert not ready.sandbox_ready.resident
        began = time.monotonic()
        second = await s.ask(session, "add one")
        print(f"warm turn: {(time.monotonic() - began) * 1000:.0f} ms")
        assert answer(second) == "42 4 1 41"
        (ready,) = of(second, "sandbox_ready")
        assert ready.sandbox_ready.resident
        assert ready.sandbox_ready.lease == of(first, "sandbox_ready")[0].sandbox_ready.lease
        (output, _) = [e.output for e in of(second, "output") if e.output.final]
        assert output.text.strip() == "41 8 1 remember 41 41"
        turn = await s.client.turn(second[-1].turn)
        assert turn.state == turn_pb2.TURN_STATE_COMPLETED
        assert turn.iterations == 2
        assert (turn.usage.models[0].role, turn.usage.models[0].calls) == ("root", 2)


async def test_events_tell_the_whole_turn_in_order(tmp_path: Path) -> None:
    steps = [action("print(llm_query('say hi'))", "I ask."), action("SUBMIT(answer='done')")]
    async with running(tmp_path, {"root": steps, "sub": ["hi there"]}) as s:
        events = await s.ask(await s.client.session(), "go")
        assert answer(events) == "done"
        found = [kind for kind in kinds(events) if kind not in ("budget_updated",)]
        assert found[:6] == [
            "turn_started", "turn_phase", "sandbox_ready", "turn_phase", "iteration_started", "lm_called",
        ]  # fmt: skip
        order = ["reasoning", "code", "tool_called", "lm_called", "lm_completed", "tool_completed", "output"]
        positions = [found.index(kind, found.index("reasoning")) for kind in order]
        assert positions == sorted(positions)
        assert found[-3:] == ["turn_phase", "answer", "turn_completed"]
        ended = events[-1].turn_completed
        assert ended.checkpoint_version == 1
        used = {line.dimension: line.used for line in ended.budget}
        assert used[budget_pb2.BUDGET_DIMENSION_LLM_CALLS] == 1
        assert {(use.role, use.calls) for use in ended.usage.models} == {("root", 2), ("sub", 1)}


async def test_a_failed_turn_leaves_a_fresh_interpreter_and_keeps_history(tmp_path: Path) -> None:
    steps: list[Reply | str] = [
        action("x = 'from turn one'"),
        SUBMIT_X,
        action("x = 'from the failed turn'"),
        Reply("no such model", status=404),
        action("print('x' in globals(), len(history))"),
        action("SUBMIT(answer=f\"{'x' in globals()} {len(history)}\")"),
    ]
    async with running(tmp_path, {"root": steps}) as s:
        session = await s.client.session()
        assert answer(await s.ask(session, "one")) == "from turn one"
        failed = await s.ask(session, "two")
        assert last(failed) == "turn_failed"
        error = failed[-1].turn_failed.error
        assert error.reason == "MODEL_REQUEST_REJECTED"
        assert s.llm.base_url not in error.message
        third = await s.ask(session, "three")
        assert answer(third) == "False 1"
        (ready,) = of(third, "sandbox_ready")
        assert not ready.sandbox_ready.resident
        assert "FAILED: MODEL_REQUEST_REJECTED" in ready.sandbox_ready.rotation_reason


async def test_a_provider_that_is_down_fails_the_turn_with_its_cause(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": lambda request: Reply(close=True)}) as s:
        events = await s.ask(await s.client.session(), "go")
        assert last(events) == "turn_failed"
        error = events[-1].turn_failed.error
        assert error.reason == "MODEL_UNAVAILABLE"
        assert "Root model" in error.message
        assert str(s.llm.port) not in error.message
        assert 1 <= len(s.llm.requests) <= 3


async def cancel_when(s: Stack, request_arrives: int, *, model: str = "root") -> list[str]:
    """Start a Turn, cancel it once the provider has so many requests for `model`, and return its events' kinds."""
    turn = await s.client.create(await s.client.session(), "go")
    watching = asyncio.create_task(s.client.watch(turn.name))
    while len(s.llm.of_model(model)) < request_arrives:
        await asyncio.sleep(0.01)
    began = time.monotonic()
    ended = await s.cancel(turn)
    assert time.monotonic() - began < 1
    assert ended.state == turn_pb2.TURN_STATE_CANCELLED
    events = await watching
    assert last(events) == "turn_cancelled"
    return kinds(events)


async def test_cancel_during_a_model_call(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": [Reply(gate=threading.Event())]}) as s:
        await cancel_when(s, 1)
        assert await asyncio.to_thread(s.llm.requests[0].aborted.wait, 2)


async def test_cancel_during_a_step(tmp_path: Path) -> None:
    looping = action("print('begun', flush=True)\nwhile True:\n    pass")
    after = action("SUBMIT(answer='fine')")
    async with running(tmp_path, {"root": [looping, after]}) as s:
        session = await s.client.session()
        turn = await s.client.create(session, "go")
        watching = asyncio.create_task(s.client.watch(turn.name))
        while not of(await s.client.watch(turn.name, snapshot=True), "output"):
            await asyncio.sleep(0.02)
        began = time.monotonic()
        ended = await s.cancel(turn)
        assert time.monotonic() - began < 1
        assert ended.state == turn_pb2.TURN_STATE_CANCELLED
        assert last(await watching) == "turn_cancelled"
        again = await s.ask(session, "again")
        assert answer(again) == "fine"
        assert "CANCELLED" in of(again, "sandbox_ready")[0].sandbox_ready.rotation_reason


async def test_cancel_during_a_tool_call(tmp_path: Path) -> None:
    asking = action("print(llm_query_batched(['a', 'b']))")
    async with running(tmp_path, {"root": [asking], "sub": lambda request: Reply(gate=threading.Event())}) as s:
        found = await cancel_when(s, 2, model="sub")
        assert "tool_called" in found


def family(child: Reply | str) -> dict[str, Script]:
    """The Root starts two children, then submits what they answered; every child's model gives `child`."""
    calls = action(
        "outcomes = rlm_query_batched([{'task': 'first'}, {'task': 'second', 'context': 'c'}])\n"
        "print([o['status'] for o in outcomes])"
    )
    own = iter([calls, action("SUBMIT(answer=' '.join(o['answer'] for o in outcomes))")])
    return {"root": lambda request: child if "You are a child" in request.prompt else next(own)}


def about_child(events: list[Event], index: int) -> list[str]:
    """The kinds of the events about the child at that place of its batch."""
    return [
        kind
        for event, kind in zip(events, kinds(events), strict=True)
        if kind.startswith("child_") and getattr(event, kind).index == index
    ]


async def test_children_are_told_in_order_and_their_outcomes_reach_the_root(tmp_path: Path) -> None:
    child = action("SUBMIT(answer='found', evidence=['line 1'], gaps=[], result_files=[])")
    async with running(tmp_path, family(child)) as s:
        events = await s.ask(await s.client.session(), "go")
        assert answer(events) == "found found"
        for index in (0, 1):
            mine = about_child(events, index)
            assert mine[0] == "child_started"
            assert mine[-1] == "child_completed"
            assert set(mine[1:-1]) <= {"child_progress"}
        started = of(events, "child_started")
        assert {(e.child_started.task, e.child_started.batch_size) for e in started} == {("first", 2), ("second", 2)}
        for event in of(events, "child_completed"):
            assert event.child_completed.status == "completed"
            assert list(event.child_completed.evidence) == ["line 1"]
            assert event.child_completed.cleanup == "confirmed"
        ended = events[-1].turn_completed
        assert ended.usage.children == 2
        assert {line.dimension: line.used for line in ended.budget}[budget_pb2.BUDGET_DIMENSION_CHILD_CALLS] == 2


async def test_a_child_reads_an_attachment_and_its_result_file_comes_back(tmp_path: Path) -> None:
    child = action(
        "text = open(inputs[0]['local_path']).read()\nopen('out.txt', 'w').write(text.upper())\n"
        "SUBMIT(answer=inputs[0]['path'], evidence=[], gaps=[], result_files=['out.txt'])"
    )
    calls = action("o = rlm_query('shout', [attachments[0].path])\nprint(o)")
    submit = action(
        "f = o['result_files'][0]\nSUBMIT(answer=o['answer'] + ' ' + f['path'] + ' ' + open(f['local_path']).read())"
    )
    own = iter([calls, submit, action("SUBMIT(answer=attachments[0].text())")])
    script = {"root": lambda request: child if "You are a child" in request.prompt else next(own)}
    async with running(tmp_path, script) as s:
        session = await s.client.session()
        uploaded = await s.client.upload(b"quiet words", filename="notes.txt")
        given = answer(await s.ask(session, "go", attachments=[uploaded.name]))
        staged, result, text = given.split(" ", 2)
        assert staged == f"{uploaded.name}/notes.txt"
        assert result.startswith("children/1/")
        assert text == "QUIET WORDS"
        assert answer(await s.ask(session, "again", attachments=[uploaded.name])) == "quiet words"


async def test_without_recursion_there_are_no_children(tmp_path: Path) -> None:
    steps = [action("rlm_query('x')"), action("SUBMIT(answer='alone')")]
    async with running(tmp_path, {"root": steps}, "rlm.recursion_enabled=false") as s:
        events = await s.ask(await s.client.session(), "go")
        assert answer(events) == "alone"
        assert "rlm_query" not in s.llm.requests[0].prompt
        (first, _) = [event.output for event in of(events, "output") if event.output.final]
        assert "NameError" in first.text


async def test_cancel_during_children(tmp_path: Path) -> None:
    async with running(tmp_path, family(Reply(gate=threading.Event()))) as s:
        found = await cancel_when(s, 3)
        assert found.count("child_started") == found.count("child_completed") == 2


async def test_the_deadline_ends_the_turn_as_timed_out(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": lambda request: Reply(gate=threading.Event())}) as s:
        began = time.monotonic()
        events = await s.ask(await s.client.session(), "go", timeout=Duration(seconds=2))
        assert time.monotonic() - began < 3.5
        assert last(events) == "turn_timed_out"
        assert events[-1].turn_timed_out.error.reason == "TURN_TIMED_OUT"


async def test_the_clock_ends_the_work_and_the_answer_is_taken_from_the_steps(tmp_path: Path) -> None:
    def root(request: Request) -> str:
        if "[[ ## code ## ]]" in request.prompt.split("Respond with")[-1]:
            return action("print('kept')\nwhile True:\n    pass")
        return fields(answer="in time")

    async with running(tmp_path, {"root": root}) as s:
        events = await s.ask(await s.client.session(), "go", timeout=Duration(seconds=5))
        assert answer(events) == "in time"
        assert [e.budget_exhausted.dimension for e in of(events, "budget_exhausted")] == [
            budget_pb2.BUDGET_DIMENSION_SECONDS
        ]
        (output,) = [event.output for event in of(events, "output") if event.output.final]
        assert "kept" in output.text


async def test_a_spent_budget_still_gives_an_answer(tmp_path: Path) -> None:
    def root(request: Request) -> str:
        if "[[ ## code ## ]]" in request.prompt.split("Respond with")[-1]:
            return action("print(read_session_history())")
        return fields(answer="what was found so far")

    async with running(tmp_path, {"root": root}) as s:
        limits = budget_pb2.BudgetLimits(tool_calls=1)
        events = await s.ask(await s.client.session(), "go", budget=limits)
        assert answer(events) == "what was found so far"
        exhausted = of(events, "budget_exhausted")
        assert [(e.budget_exhausted.dimension, e.budget_exhausted.finalizes) for e in exhausted] == [
            (budget_pb2.BUDGET_DIMENSION_TOOL_CALLS, True)
        ]
        phases = [event.turn_phase.phase for event in of(events, "turn_phase")]
        assert turn_pb2.TURN_STATE_FINALIZING in phases
        turn = await s.client.turn(events[-1].turn)
        assert turn.termination == turn_pb2.TERMINATION_EXTRACT


async def test_attachments_are_staged_and_read_by_both_ways(tmp_path: Path) -> None:
    steps = [
        action("a = attachments[0]\nprint(a.text(), read_attachment(a.id, 2, 3))"),
        action("SUBMIT(answer=a.text() + read_attachment(a.id, 2, 3)['text'])"),
    ]
    async with running(tmp_path, {"root": steps}) as s:
        uploaded = await s.client.upload("grüße\n".encode(), filename="a b.txt")
        events = await s.ask(await s.client.session(), "read it", attachments=[uploaded.name])
        assert answer(events) == "grüße\nüße"
        read = of(events, "attachment_read")
        assert [e.attachment_read.filename for e in read] == ["a b.txt", "a b.txt"]


async def test_hard_characters_in_an_answer_are_stored(tmp_path: Path) -> None:
    steps = [action(r"print('\ud800')"), action(r"SUBMIT(answer='a\x00b\ud800c')")]
    async with running(tmp_path, {"root": steps}) as s:
        text = answer(await s.ask(await s.client.session(), "go"))
        assert text.startswith("a")
        assert text.endswith("c")
        assert "\x00" not in text


async def test_shutdown_fails_what_still_runs(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": [Reply(gate=threading.Event())]}) as s:
        turn = await s.client.create(await s.client.session(), "go")
        watching = asyncio.create_task(s.client.watch(turn.name))
        await asyncio.to_thread(s.llm.wait_for, 1)
        await s.session.stop(0.1)
        events = await watching
        assert last(events) == "turn_failed"
        assert events[-1].turn_failed.error.reason == "SERVER_SHUTDOWN"
