"""The session, recursion and sandbox services in one process over real sockets, and a scripted model provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc
from fleet.sandbox.v1 import lease_pb2, sandbox_service_pb2, sandbox_service_pb2_grpc
from fleet.session.v1 import session_service_pb2, turn_event_pb2, turn_pb2

from config.loader import load
from config.policy import Policy
from services.common.channel import open_channel
from services.recursion.main import build_service as build_recursion
from services.sandbox.main import build_service as build_sandbox
from services.session.main import SessionServer
from services.session.main import build_service as build_session
from tests.fakes.scripted_llm import Script, ScriptedLlm
from tests.integration.session.rig import Client, turn_request

Event = turn_event_pb2.TurnEvent
TERMINAL = ("turn_completed", "turn_failed", "turn_cancelled", "turn_timed_out")


def make_policy(root: Path, llm: ScriptedLlm, *overrides: str) -> Policy:
    models = [
        f"llm.{role}.{key}={value}"
        for role in ("root", "sub")
        for key, value in (("base_url", llm.base_url), ("model", role))
    ]
    return load(profile="test", env={}, overrides=[f"storage.data_root={root}", *models, *overrides], components=())


class Server(Protocol):
    """What is stopped at the end."""

    async def stop(self, grace: float) -> None: ...


@dataclass
class Stack:
    """The running services and a client of the session service."""

    llm: ScriptedLlm
    policy: Policy
    client: Client
    session: SessionServer
    sandbox: grpc.aio.Channel
    servers: Mapping[str, Server]

    async def ask(self, session: str, text: str, **fields: object) -> list[Event]:
        """Run a Turn and return all its events."""
        request = turn_request(session, text, **fields)
        return [event async for batch in self.client.sessions.RunTurn(request) for event in batch.events]

    async def leases(self, *, all_states: bool = False) -> list[lease_pb2.Lease]:
        """The broker's leases, latest first; ended ones too when `all_states`."""
        stub = sandbox_service_pb2_grpc.SandboxServiceStub(self.sandbox)
        request = sandbox_service_pb2.ListLeasesRequest(include_absent=all_states)
        return list((await stub.ListLeases(request)).leases)

    async def release(self, name: str) -> None:
        """Take a lease away from its holder."""
        stub = sandbox_service_pb2_grpc.SandboxServiceStub(self.sandbox)
        await stub.ReleaseLease(sandbox_service_pb2.ReleaseLeaseRequest(name=name))

    async def cancel(self, turn: turn_pb2.Turn) -> turn_pb2.Turn:
        return await self.client.sessions.CancelTurn(session_service_pb2.CancelTurnRequest(name=turn.name))


@asynccontextmanager
async def running(root: Path, script: Script | Mapping[str, Script], *overrides: str) -> AsyncIterator[Stack]:
    """Start everything; sandbox first, as the others call it."""
    async with AsyncExitStack() as stack:
        llm = stack.enter_context(ScriptedLlm(script))
        policy = make_policy(root, llm, *overrides)
        sandbox = build_sandbox(policy, env={})
        policy = policy.with_addresses({"sandbox": await sandbox.start()})
        stack.push_async_callback(sandbox.stop, 0.2)
        broker = await stack.enter_async_context(
            open_channel(policy.services.sandbox.address, service="sandbox", tokens=None)
        )
        recursion = build_recursion(policy, env={})
        policy = policy.with_addresses({"recursion": await recursion.start()})
        stack.push_async_callback(recursion.stop, 0.2)
        session = build_session(policy, env={})
        address = await session.start()
        stack.push_async_callback(session.stop, 0.2)
        channel = await stack.enter_async_context(open_channel(address, service="session", tokens=None))
        yield Stack(llm, policy, Client(channel), session, broker, {"sandbox": sandbox, "recursion": recursion})


def kinds(events: list[Event]) -> list[str]:
    return [str(event.WhichOneof("payload")) for event in events]


def last(events: list[Event]) -> str:
    """The kind of the last event; all before it must not be terminal, and the numbers are without gaps."""
    found = kinds(events)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert [kind for kind in found if kind in TERMINAL] == found[-1:]
    return found[-1]


def answer(events: list[Event]) -> str:
    assert last(events) == "turn_completed", events[-1]
    return next(event.answer.text for event in events if event.HasField("answer"))


def of(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event.WhichOneof("payload") == kind]
