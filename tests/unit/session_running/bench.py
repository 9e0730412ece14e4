"""A Turn that is run against a fake recursion service and a played runtime."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from services.common.clock import SystemClock
from services.common.redaction import Redactor
from services.rlm import events
from services.rlm.invocation.scope import InvocationScope
from services.rlm.models.usage import ModelUse
from services.rlm.native import RlmOutcome
from services.session.attachments.attachment import Attachment
from services.session.running.background import BackgroundTasks
from services.session.running.clients.recursion import RecursionClient
from services.session.running.invocation import InvocationParts
from services.session.running.preparation import PreparationParts
from services.session.running.residents.registry import RegistryLimits, ResidentRegistry
from services.session.running.residents.runtime import TurnRuntime
from services.session.running.turn_run import RunParts, TurnRun
from services.session.sessions.session import Session, SessionState
from services.session.turns.spending import Limits
from services.session.turns.turn import Turn, TurnInput, TurnJob, TurnState
from tests.fakes.recursion_service import FakeRecursion, served
from tests.fakes.turn_record import MemoryRecord
from tests.fakes.turn_runtime import Play, PlayedRuntime

LIMITS = Limits(iterations=5, llm_calls=32, tool_calls=10, child_calls=4, output_bytes=1000, seconds=30)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ATTACHMENT = Attachment("a1", "w", "x.txt", "text/plain", 3, "0" * 64, NOW, "blobs/a1")


async def answers(inputs: Mapping[str, Any], scope: InvocationScope) -> RlmOutcome:
    scope.emit(events.IterationStarted(1, 5))
    scope.record_use(ModelUse("root", "m", 1, 10, 5))
    return RlmOutcome({"answer": "42"}, "submit", 1, scope.usage())


async def hangs(inputs: Mapping[str, Any], scope: InvocationScope) -> RlmOutcome:
    await asyncio.Event().wait()
    raise AssertionError("never")


@dataclass
class Bench:
    """A Turn that is run against a fake recursion service and a played runtime."""

    service: FakeRecursion
    registry: ResidentRegistry[TurnRuntime]
    parts: RunParts
    background: BackgroundTasks
    runtimes: list[PlayedRuntime]
    record: MemoryRecord = field(default_factory=MemoryRecord)

    def run(self, *, turn: str = "t1", seconds: float = 30, attachments: tuple[Attachment, ...] = ()) -> TurnRun:
        """A run of one Turn on the Session `s`."""
        return TurnRun(self.job(turn, seconds, attachments), self.record, self.parts, self.background)

    def job(self, turn: str = "t1", seconds: float = 30, attachments: tuple[Attachment, ...] = ()) -> TurnJob:
        session = Session("s", "w", "", SessionState.ACTIVE, 0, NOW, NOW)
        made = Turn(turn, "s", "w", "r", "f", 3, TurnState.QUEUED, TurnInput("question"), LIMITS, NOW)
        return TurnJob(made, session, 3, attachments, time.monotonic() + seconds)


@asynccontextmanager
async def bench(play: Play = answers, stage: Callable[..., Any] | None = None) -> AsyncIterator[Bench]:
    service = FakeRecursion(lambda request, call: [])
    runtimes: list[PlayedRuntime] = []
    registry: ResidentRegistry[TurnRuntime] = ResidentRegistry(RegistryLimits(2, 60, 10, 30), SystemClock())

    def make(*_: Any) -> PlayedRuntime:
        runtimes.append(PlayedRuntime(play))
        return runtimes[-1]

    async def staged(*_: Any) -> None:
        return

    async with served(service) as channel:
        preparation = PreparationParts(registry, make, stage or staged, RecursionClient(channel), "f")
        invocation = InvocationParts(None, Redactor(["secret-value-1"]), recursion=True, max_output_chars=6000)  # type: ignore[arg-type]
        parts = RunParts(preparation, invocation, wrap_up_seconds=5, settle_seconds=5, clock=SystemClock())
        background = BackgroundTasks("test")
        yield Bench(service, registry, parts, background, runtimes)
        assert await background.join(5)
        await registry.close(5)
