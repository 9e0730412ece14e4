"""Exit codes of a Turn, and what Ctrl-C does to it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import grpc.aio
import pytest
from fleet.session.v1 import turn_event_pb2 as pb

from cli.conversation import Conversation
from cli.session_client import SessionClient
from services.common.errors import FleetError
from services.common.event_json import TERMINAL, event_type
from tests.unit.cli.turn_story import TURN, answer, ended


class Shown:
    """A display that remembers."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.events: list[pb.TurnEvent] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def progress(self, text: str) -> None:
        self.said.append(text)

    def show(self, event: pb.TurnEvent) -> None:
        self.events.append(event)


class Service:
    """A session service whose Turn goes on until it is cancelled, or ends as it is told."""

    def __init__(self, *events: pb.TurnEvent, refusal: grpc.aio.AioRpcError | None = None) -> None:
        self.events = events
        self.refusal = refusal
        self.ends = any(event_type(one) in TERMINAL for one in events)
        self.obeys = True
        self.sessions: list[str] = []
        self.uploads: list[str] = []
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def create_session(self, title: str) -> str:
        self.sessions.append(title)
        return "sessions/s1"

    async def upload(self, path: Path) -> str:
        self.uploads.append(path.name)
        return f"attachments/{path.name}"

    async def run_turn(
        self, session: str, text: str, attachments: list[str], timeout_seconds: float | None
    ) -> AsyncIterator[pb.TurnEvent]:
        if self.refusal is not None:
            raise self.refusal
        for one in self.events:
            yield one
        self.begun.set()
        if not self.ends:
            await self.cancelled.wait()
            yield ended("turn_cancelled", "The Turn was cancelled.")

    async def cancel_turn(self, turn: str) -> None:
        assert turn == TURN
        if self.refusal is not None:
            raise self.refusal
        if self.obeys:
            self.cancelled.set()


def conversation(service: Service) -> Conversation:
    return Conversation(cast(SessionClient, service), None)


def refused() -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "gone")


@pytest.mark.parametrize(("how", "code"), [("completed", 0), ("failed", 1), ("timed_out", 1), ("cancelled", 130)])
async def test_the_exit_code_tells_the_end(how: str, code: int) -> None:
    service, display = Service(answer(), ended(f"turn_{how}")), Shown()
    talk = conversation(service)
    assert await talk.turn("What\n is  it?", [Path("a.txt")], None, display) == code
    assert (service.sessions, service.uploads, display.said) == (["What is it?"], ["a.txt"], ["uploading a.txt"])
    await talk.turn("And then?", [], None, display)
    assert len(service.sessions) == 1


async def test_a_refusal_is_the_services_own_error() -> None:
    with pytest.raises(FleetError, match="reached") as caught:
        await conversation(Service(refusal=refused())).turn("What?", [], None, Shown())
    assert caught.value.reason == "UNAVAILABLE"


async def test_the_first_interrupt_cancels_and_the_end_is_shown() -> None:
    before = signal.getsignal(signal.SIGINT)
    service, display = Service(answer()), Shown()
    turn = asyncio.create_task(conversation(service).turn("What?", [], None, display))
    await service.begun.wait()
    signal.raise_signal(signal.SIGINT)
    assert await turn == 130
    assert display.said == ["cancelling the Turn; Ctrl-C again leaves at once"]
    assert display.events[-1].WhichOneof("payload") == "turn_cancelled"
    assert signal.getsignal(signal.SIGINT) is before


async def left(service: Service, interrupts: int) -> Shown:
    """Interrupts a Turn until it is left; KeyboardInterrupt is caught inside the task, as it would end the loop."""
    display = Shown()

    async def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            await conversation(service).turn("What?", [], None, display)

    turn = asyncio.create_task(run())
    await service.begun.wait()
    for _ in range(interrupts):
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)
    await turn
    return display


async def test_an_interrupt_before_the_turn_runs_leaves() -> None:
    assert (await left(Service(), 1)).said == []


async def test_the_second_interrupt_leaves() -> None:
    service = Service(answer())
    service.obeys = False
    await left(service, 2)


async def test_a_cancellation_that_fails_is_told() -> None:
    service = Service(answer())
    display = Shown()
    turn = asyncio.create_task(conversation(service).turn("What?", [], None, display))
    await service.begun.wait()
    service.refusal = refused()
    signal.raise_signal(signal.SIGINT)
    async with asyncio.timeout(5):
        while len(display.said) < 2:
            await asyncio.sleep(0)
    service.cancelled.set()
    assert await turn == 130
    assert display.said[-1].startswith("the Turn could not be cancelled: ")
