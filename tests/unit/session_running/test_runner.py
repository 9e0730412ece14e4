"""The runner owns every Turn's task to its end."""

from __future__ import annotations

import asyncio

from services.session.running.runner import ResidentTurnRunner
from services.session.turns.turn import TurnState
from tests.fakes.turn_record import MemoryRecord
from tests.unit.session_running.bench import Bench, bench, hangs


async def started(b: Bench, turn: str = "t1") -> tuple[ResidentTurnRunner, asyncio.Task[None]]:
    """A runner whose Turn has reached its invocation."""
    runner = ResidentTurnRunner(b.parts)
    runner.open()
    task = runner.start(b.job(turn), b.record)
    while TurnState.RUNNING not in b.record.states:
        await asyncio.sleep(0.005)
    return runner, task


async def test_cancel_says_whether_the_turn_runs_here() -> None:
    async with bench(hangs) as b:
        runner, task = await started(b)
        assert not runner.cancel("another")
        assert runner.cancel("t1")
        await task
        assert b.record.ended is not None
        assert b.record.ended.state is TurnState.CANCELLED
        assert not runner.cancel("t1")
        await runner.drain(0)


async def test_draining_gives_turns_their_time_then_fails_them() -> None:
    async with bench(hangs) as b:
        runner, task = await started(b)
        await runner.drain(0.05)
        assert task.done()
        assert b.record.ended is not None
        assert (b.record.ended.state, b.record.ended.error.reason) == (TurnState.FAILED, "SERVER_SHUTDOWN")
        assert b.runtimes[0].closed == 1
        assert runner.registry.residents() == []


async def test_draining_waits_for_a_turn_that_ends_in_time() -> None:
    async with bench() as b:
        runner = ResidentTurnRunner(b.parts)
        task = runner.start(b.job(), b.record)
        await runner.drain(10)
        assert task.done()
        assert b.record.committed is not None
        assert b.runtimes[0].closed == 1


async def test_forgetting_a_session_ends_its_turn_and_its_runtime_and_no_other() -> None:
    async with bench(hangs) as b:
        runner, task = await started(b)
        await runner.forget("another")
        assert not task.done()
        await runner.forget("s")
        assert task.done()
        assert b.record.ended is not None
        assert b.record.ended.error.reason == "OWNERSHIP_LOST"
        await runner.drain(0)
        assert b.runtimes[0].closed == 1


async def test_forgetting_an_idle_session_releases_its_runtime() -> None:
    async with bench() as b:
        runner = ResidentTurnRunner(b.parts)
        await runner.start(b.job(), b.record)
        assert b.runtimes[0].closed == 0
        await runner.forget("s")
        assert b.runtimes[0].closed == 1
        b.record = MemoryRecord()
        await runner.start(b.job("t2"), b.record)
        assert len(b.runtimes) == 2
        await runner.drain(0)
