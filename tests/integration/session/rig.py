"""A real session service with a scripted engine, and stubs to call it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from fleet.session.v1 import (
    artifact_service_pb2_grpc,
    attachment_service_pb2,
    attachment_service_pb2_grpc,
    session_pb2,
    session_service_pb2,
    session_service_pb2_grpc,
    skill_service_pb2_grpc,
    turn_event_pb2,
    turn_pb2,
    workspace_service_pb2_grpc,
)

from config.loader import load
from config.policy import Policy
from services.common import keys
from services.common.channel import open_channel
from services.common.errors import FleetError
from services.common.rpc_status import from_rpc_error
from services.common.token_sources import ClaimsTokens
from services.common.tokens import Claims
from services.session.main import SessionServer, build_service
from tests.fakes.turn_engine import ScriptedEngine

_REQUESTS = itertools.count()


def make_policy(root: Path, *overrides: str) -> Policy:
    return load(profile="test", env={}, overrides=[f"storage.data_root={root}", *overrides], components=())


@dataclass
class Client:
    """The stubs of one caller."""

    channel: grpc.aio.Channel

    def __post_init__(self) -> None:
        self.sessions = session_service_pb2_grpc.SessionServiceStub(self.channel)
        self.attachments = attachment_service_pb2_grpc.AttachmentServiceStub(self.channel)
        self.artifacts = artifact_service_pb2_grpc.ArtifactServiceStub(self.channel)
        self.skills = skill_service_pb2_grpc.SkillServiceStub(self.channel)
        self.workspace = workspace_service_pb2_grpc.WorkspaceServiceStub(self.channel)

    async def session(self, title: str = "") -> str:
        made = await self.sessions.CreateSession(
            session_service_pb2.CreateSessionRequest(session=session_pb2.Session(title=title))
        )
        return made.name

    async def create(self, session: str, text: str = "hello", **fields: Any) -> turn_pb2.Turn:
        return await self.sessions.CreateTurn(turn_request(session, text, **fields))

    async def turn(self, name: str) -> turn_pb2.Turn:
        return await self.sessions.GetTurn(session_service_pb2.GetTurnRequest(name=name))

    async def watch(self, name: str, after: int = 0, *, snapshot: bool = False) -> list[turn_event_pb2.TurnEvent]:
        request = session_service_pb2.WatchTurnRequest(turn=name, after_sequence=after, snapshot=snapshot)
        return [event async for batch in self.sessions.WatchTurn(request) for event in batch.events]

    async def upload(
        self, content: bytes, *, filename: str = "a.txt", **fields: Any
    ) -> attachment_service_pb2.Attachment:
        return await self.attachments.UploadAttachment(upload_messages(content, filename, **fields))


async def upload_messages(
    content: bytes, filename: str = "a.txt", piece: int = 65_536, **fields: Any
) -> AsyncIterator[attachment_service_pb2.UploadAttachmentRequest]:
    metadata = attachment_service_pb2.UploadAttachmentMetadata(filename=filename, **fields)
    yield attachment_service_pb2.UploadAttachmentRequest(metadata=metadata)
    for start in range(0, len(content), piece):
        yield attachment_service_pb2.UploadAttachmentRequest(chunk=content[start : start + piece])


def turn_request(session: str, text: str = "hello", **fields: Any) -> session_service_pb2.RunTurnRequest:
    fields.setdefault("request_id", f"request-{next(_REQUESTS)}")
    return session_service_pb2.RunTurnRequest(session=session, text=text, **fields)


@dataclass
class Replica:
    """One running service."""

    server: SessionServer
    engine: ScriptedEngine
    policy: Policy
    address: str
    client: Client

    def client_of(self, workspace: str) -> Client:
        tokens = ClaimsTokens(keys.signer(self.policy, {}), Claims(workspace, "tester"))
        return Client(open_channel(self.address, service="session", tokens=tokens))


@asynccontextmanager
async def serving(
    policy: Policy, engine: ScriptedEngine | None = None, env: Mapping[str, str] | None = None, grace: float = 0.2
) -> AsyncIterator[Replica]:
    engine = engine or ScriptedEngine()
    server = build_service(policy, env=env or {}, engine=lambda parts: engine)
    address = await server.start()
    try:
        async with open_channel(address, service="session", tokens=None) as channel:
            yield Replica(server, engine, policy, address, Client(channel))
    finally:
        await server.stop(grace)


@asynccontextmanager
async def refused(reason: str) -> AsyncIterator[dict[str, FleetError]]:
    """The block must fail with this reason; the error is at key "error" afterwards."""
    caught: dict[str, FleetError] = {}
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        yield caught
    caught["error"] = from_rpc_error(failure.value)
    assert caught["error"].reason == reason, caught["error"]


def kinds(events: list[turn_event_pb2.TurnEvent]) -> list[str | None]:
    return [event.WhichOneof("payload") for event in events]
