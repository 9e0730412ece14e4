"""An engine that runs Turns by a script instead of a model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

from fleet.session.v1 import turn_event_pb2 as pb

from services.session.runner import TurnRecord
from services.session.turns.spending import BudgetLine, ModelUsage, Spent, Usage
from services.session.turns.turn import Commit, Termination, Turn, TurnEnd, TurnError, TurnJob, TurnState

USAGE = Usage((ModelUsage("root", "scripted", 2, 100, 20, 0.5),), 1)


@dataclass
class Running:
    """A Turn that runs: what the script may look at and wait for."""

    job: TurnJob
    record: TurnRecord
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = "TURN_CANCELLED"


Script = Callable[[Running], Awaitable[None]]


async def begin(run: Running) -> None:
    await run.record.enter(TurnState.PREPARING, "staging")
    await run.record.enter(TurnState.RUNNING)


async def complete(run: Running, answer: str) -> None:
    await run.record.enter(TurnState.SETTLING)
    budget = tuple(BudgetLine(line.dimension, min(1, line.limit), line.limit) for line in run.job.turn.budget)
    await run.record.commit(
        Commit(answer, {"answer": answer}, Termination.SUBMIT, Spent(USAGE, budget, 1), trace_id="ab" * 16)
    )


async def echo(run: Running) -> None:
    """One step that prints the question, and the question as the answer."""
    await begin(run)
    run.record.append("iteration_started", pb.IterationStarted(iteration=1, of=run.job.turn.limits.iterations))
    run.record.append("code", pb.StepText(iteration=1, text="print(request)"))
    run.record.append("output", pb.StepOutput(iteration=1, text=run.job.turn.input.text, final=True))
    await run.record.progress(1, run.job.turn.budget)
    await complete(run, f"echo: {run.job.turn.input.text}")


async def until_stopped(run: Running) -> None:
    """Runs until it is cancelled or released; then echoes."""
    await begin(run)
    stopped = asyncio.create_task(run.stopped.wait())
    released = asyncio.create_task(run.released.wait())
    await asyncio.wait([stopped, released], return_when=asyncio.FIRST_COMPLETED)
    for task in (stopped, released):
        task.cancel()
    if run.stopped.is_set():
        state = TurnState.CANCELLED if run.reason == "TURN_CANCELLED" else TurnState.FAILED
        await run.record.end(TurnEnd(state, TurnError(run.reason, "The Turn was stopped.")))
    else:
        await complete(run, "released")


async def leave(run: Running) -> None:
    """Forgets to end the Turn."""
    await begin(run)


class ScriptedEngine:
    """Implements `services.session.runner.TurnEngine`."""

    def __init__(self, script: Script = echo) -> None:
        self.script = script
        self.runs: dict[str, Running] = {}
        self.forgotten: list[str] = []
        self.cleaned: list[tuple[str, int]] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def runner(self) -> Self:
        return self

    @property
    def recovery(self) -> Self:
        return self

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        return None

    def start(self, job: TurnJob, record: TurnRecord) -> asyncio.Task[None]:
        run = Running(job, record)
        self.runs[job.turn.id] = run

        async def work() -> None:
            await self.script(run)

        task = asyncio.create_task(work())
        self._tasks[job.turn.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(job.turn.id))
        return task

    def cancel(self, turn_id: str) -> bool:
        if turn_id not in self._tasks:
            return False
        self.runs[turn_id].stopped.set()
        return True

    async def forget(self, session_id: str) -> None:
        self.forgotten.append(session_id)

    async def drain(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=seconds)
        for turn_id in list(self._tasks):
            self.runs[turn_id].reason = "SERVER_SHUTDOWN"
            self.runs[turn_id].stopped.set()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def clean_up(self, turn: Turn, epoch: int) -> Spent:
        self.cleaned.append((turn.id, epoch))
        return Spent(Usage(), turn.budget, turn.iterations)
