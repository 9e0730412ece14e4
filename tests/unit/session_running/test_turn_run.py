"""The life of a Turn: its states, and exactly one end whatever happens and whenever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from services.common.errors import FleetError
from services.rlm import events
from services.rlm.budget.gate import Dimension
from services.rlm.invocation.scope import InvocationScope
from services.rlm.models.usage import ModelUse
from services.rlm.native import RlmOutcome
from services.session.running.turn_run import TurnRun
from services.session.turns.turn import Termination, TurnState
from tests.fakes.turn_record import MemoryRecord
from tests.unit.session_running.bench import ATTACHMENT, Bench, bench, hangs


async def test_a_turn_that_answers_is_committed_and_keeps_its_runtime() -> None:
    async with bench() as b:
        await b.run().run()
        commit = b.record.committed
        assert commit is not None
        assert (commit.answer, commit.termination) == ("42", Termination.SUBMIT)
        assert commit.spent.usage.models[0].prompt_tokens == 10
        assert commit.spent.iterations == 1
        assert {line.dimension: line.used for line in commit.spent.budget}["llm_calls"] == 7
        assert b.record.states == [
            TurnState.QUEUED, TurnState.PREPARING, TurnState.RUNNING, TurnState.SETTLING,
        ]  # fmt: skip
        assert b.record.kinds[:2] == ["sandbox_ready", "iteration_started"]
        assert b.service.settled == 1
        assert b.service.aborted == []

        b.record = MemoryRecord()
        await b.run(turn="t2").run()
        assert len(b.runtimes) == 1
        assert b.record.events[0][1].resident  # type: ignore[attr-defined]


async def test_the_ledger_is_opened_with_the_turns_limits_and_moments() -> None:
    async with bench() as b:
        await b.run(seconds=10).run()
        (opened,) = b.service.opened
        assert (opened.turn, opened.session, opened.epoch) == ("t1", "s", 3)
        assert len(opened.limits) == 6
        wrap_up = opened.deadline.ToDatetime() - opened.work_deadline.ToDatetime()
        assert wrap_up.total_seconds() == pytest.approx(5, abs=0.01)


async def test_finalization_is_a_state_of_its_own() -> None:
    async def extracts(inputs: Mapping[str, Any], scope: InvocationScope) -> RlmOutcome:
        scope.exhausted(Dimension.TOOL_CALLS)
        scope.emit(events.LmCalled("1", "root", "m", "extract"))
        return RlmOutcome({"answer": "from the steps"}, "extract", 2, [])

    async with bench(extracts) as b:
        await b.run().run()
        assert b.record.states[-3:] == [TurnState.RUNNING, TurnState.FINALIZING, TurnState.SETTLING]
        assert b.record.committed is not None
        assert b.record.committed.termination is Termination.EXTRACT


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        (FleetError("MODEL_UNAVAILABLE", "The provider is down."), TurnState.FAILED),
        (FleetError("TURN_TIMED_OUT", "late"), TurnState.TIMED_OUT),
        (RuntimeError("/secret/path"), TurnState.FAILED),
    ],
)
async def test_a_failure_taints_and_is_told_without_inner_words(failure: Exception, state: TurnState) -> None:
    async def fails(inputs: Mapping[str, Any], scope: InvocationScope) -> RlmOutcome:
        scope.record_use(ModelUse("root", "m", 3, 10, 5))
        raise failure

    async with bench(fails) as b:
        await b.run().run()
        end = b.record.ended
        assert end is not None
        assert end.state is state
        assert "/secret" not in end.error.message
        assert end.spent.usage.models[0].calls == 3
        assert [request.epoch for request in b.service.aborted] == [3]
        b.record = MemoryRecord()
        await b.run(turn="t2").run()
        assert len(b.runtimes) == 2
        assert b.runtimes[0].closed == 1
        ready = b.record.events[0][1]
        assert not ready.resident  # type: ignore[attr-defined]
        assert state in ready.rotation_reason  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "outputs", [{"answer": " "}, {"answer": "the secret-value-1"}, {"answer": "x", "n": float("nan")}]
)
async def test_outputs_that_break_the_contract_fail_the_turn(outputs: dict[str, Any]) -> None:
    async def submits(inputs: Mapping[str, Any], scope: InvocationScope) -> RlmOutcome:
        return RlmOutcome(outputs, "submit", 1, [])

    async with bench(submits) as b:
        await b.run().run()
        assert b.record.ended is not None
        assert b.record.ended.error.reason == "OUTPUT_INVALID"


async def test_children_that_are_unresolved_fail_the_turn() -> None:
    async with bench() as b:
        b.service.settlement = FleetError("CHILDREN_UNRESOLVED", "c1 is still being removed.")
        await b.run().run()
        assert b.record.ended is not None
        assert b.record.ended.error.reason == "CHILDREN_UNRESOLVED"
        assert b.runtimes[0].closed <= 1


async def cancelled_within_a_second(b: Bench, run: TurnRun, reached: Callable[[], bool]) -> None:
    task = asyncio.create_task(run.run())
    while not reached():
        await asyncio.sleep(0.005)
    began = time.monotonic()
    run.stop(FleetError("TURN_CANCELLED", "The Turn was cancelled."))
    await task
    assert time.monotonic() - began < 1
    assert b.record.ended is not None
    assert b.record.ended.state is TurnState.CANCELLED


async def test_cancel_while_the_ledger_opens() -> None:
    async with bench() as b:
        b.service.opening = asyncio.Event()
        await cancelled_within_a_second(b, b.run(), lambda: bool(b.service.opened))
        assert len(b.service.aborted) == 1
        b.service.opening.set()


async def test_cancel_while_attachments_are_staged() -> None:
    reached = asyncio.Event()

    async def stage(*_: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    async with bench(stage=stage) as b:
        await cancelled_within_a_second(b, b.run(attachments=(ATTACHMENT,)), reached.is_set)
        assert await b.registry.close(5)
        assert b.runtimes[0].closed == 1


async def test_cancel_while_the_model_works() -> None:
    async with bench(hangs) as b:
        await cancelled_within_a_second(b, b.run(), lambda: TurnState.RUNNING in b.record.states)


async def test_cancel_while_the_work_ignores_it() -> None:
    release = asyncio.Event()

    async def stubborn(inputs: Mapping[str, Any], scope: InvocationScope) -> RlmOutcome:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return RlmOutcome({"answer": "late"}, "submit", 1, [])

    async with bench(stubborn) as b:
        await cancelled_within_a_second(b, b.run(), lambda: TurnState.RUNNING in b.record.states)
        release.set()
        assert b.record.committed is None


async def test_cancel_while_settling() -> None:
    async with bench() as b:
        b.service.settling = asyncio.Event()
        await cancelled_within_a_second(b, b.run(), lambda: b.service.settled > 0)
        b.service.settling.set()


async def test_a_commit_that_has_begun_wins_over_a_cancel() -> None:
    async with bench() as b:
        run = b.run()
        commit = b.record.commit

        async def slow(given: Any) -> int:
            run.stop(FleetError("TURN_CANCELLED", "too late"))
            await asyncio.sleep(0)
            return await commit(given)

        b.record.commit = slow  # type: ignore[method-assign]
        await run.run()
        assert b.record.committed is not None
        assert b.record.ended is None


async def test_the_deadline_ends_the_turn() -> None:
    async with bench(hangs) as b:
        began = time.monotonic()
        await b.run(seconds=0.3).run()
        assert time.monotonic() - began < 1.5
        assert b.record.ended is not None
        assert b.record.ended.state is TurnState.TIMED_OUT


async def test_a_failed_commit_fails_the_turn_and_taints() -> None:
    async with bench() as b:
        b.record.commit_failure = OSError("disk full at /var/lib")
        await b.run().run()
        assert b.record.ended is not None
        assert b.record.ended.error.reason == "COMMIT_FAILED"
        assert "/var" not in b.record.ended.error.message
        assert await b.registry.close(5)
        assert b.runtimes[0].closed == 1


async def test_lost_ownership_ends_without_a_write() -> None:
    async with bench() as b:
        b.record.commit_failure = FleetError("OWNERSHIP_LOST", "moved on")
        b.record.end_failures = [FleetError("OWNERSHIP_LOST", "moved on")]
        await b.run().run()
        assert b.record.ended is None
        assert b.record.committed is None


async def test_an_end_that_is_not_stored_is_tried_again() -> None:
    async with bench(hangs) as b:
        b.record.end_failures = [OSError("locked"), FleetError("COMMIT_FAILED", "busy")]
        await cancelled_after(b)
        assert b.record.ended is not None


async def cancelled_after(b: Bench) -> None:
    run = b.run()
    task = asyncio.create_task(run.run())
    while TurnState.RUNNING not in b.record.states:
        await asyncio.sleep(0.005)
    run.stop(FleetError("TURN_CANCELLED", "The Turn was cancelled."))
    await task


async def test_a_lost_lease_fails_the_running_turn() -> None:
    async with bench(hangs) as b:
        task = asyncio.create_task(b.run().run())
        while TurnState.RUNNING not in b.record.states:
            await asyncio.sleep(0.005)
        b.runtimes[0].renewal = FleetError("LEASE_LOST", "killed")
        await b.registry.beat()
        await task
        assert b.record.ended is not None
        assert b.record.ended.error.reason == "INTERPRETER_FAILED"
