"""The composition root of the session service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import grpc
from fleet.session.v1 import (
    artifact_service_pb2_grpc,
    attachment_service_pb2_grpc,
    session_service_pb2_grpc,
    skill_service_pb2_grpc,
    workspace_service_pb2_grpc,
)

from config.policy import Policy
from config.server import ComponentName
from services.common import keys
from services.common.blobs import BlobStore
from services.common.clock import Clock, SystemClock
from services.common.composed import ComposedService, advertised
from services.common.ids import new_id
from services.common.server import FleetServer, build_server
from services.session.attachments.service import AttachmentService
from services.session.events.log import EventLog
from services.session.ownership.owner import SessionOwner, Terms
from services.session.ownership.takeover import Takeover
from services.session.runner import TurnEngine
from services.session.servicers.artifact import ArtifactServicer
from services.session.servicers.attachment import AttachmentServicer
from services.session.servicers.session import SessionServicer
from services.session.servicers.skill import SkillServicer
from services.session.servicers.workspace import WorkspaceServicer
from services.session.sessions.service import SessionService
from services.session.store import Store
from services.session.turns.capacity import Capacity
from services.session.turns.service import TurnService
from services.session.turns.supervision import TurnSupervisor

NAME: ComponentName = "session"
"""The component's name in the policy."""

_STREAM_SECONDS = 1.0


@dataclass(frozen=True)
class EngineParts:
    """What the part that runs Turns is made of, beside what it opens itself.

    Attributes:
        policy: the effective policy.
        env: the environment that the policy's variables are read from.
        clock: the time.
        blobs: the attachments' bytes.
    """

    policy: Policy
    env: Mapping[str, str]
    clock: Clock
    blobs: BlobStore


EngineFactory = Callable[[EngineParts], TurnEngine]


def build_service(
    policy: Policy,
    *,
    env: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    engine: EngineFactory | None = None,
) -> SessionServer:
    """The session service, not yet started.

    Args:
        policy: the effective policy; the addresses of the other services are taken from it.
        env: the environment; the process's own by default.
        clock: the time; the machine's by default.
        engine: makes the part that runs Turns; the native RLM's by default.
    """
    return SessionServer(policy, os.environ if env is None else env, clock or SystemClock(), engine or _native_engine)


def _native_engine(parts: EngineParts) -> TurnEngine:
    # Imported late: it brings the RLM harness, which a server that runs another engine does without.
    from services.session.running.engine import build_engine

    return build_engine(parts.policy, parts.env, parts.clock, parts.blobs)


@dataclass(frozen=True)
class _Parts:
    """What `start` has made and `_drain` ends."""

    server: FleetServer
    turns: TurnService
    supervisor: TurnSupervisor


class SessionServer(ComposedService):
    """One replica of the session service: `await start()` once, `await stop(grace)` once."""

    name = NAME

    def __init__(self, policy: Policy, env: Mapping[str, str], clock: Clock, engine: EngineFactory) -> None:
        """Hold what `start` composes; see `build_service`."""
        super().__init__(policy, env, clock)
        self._engine = engine

    async def _open(self, stack: AsyncExitStack) -> str:
        policy, clock, alone = self._policy, self._clock, self._alone
        if alone:
            self._lock_data_root(stack)
        database = await self._open_database(stack)
        blobs = BlobStore(policy.storage.blobs)
        store = Store(database)
        engine = self._engine(EngineParts(policy, self._env, clock, blobs))
        stack.push_async_callback(engine.close)
        await engine.open()
        events = EventLog(store.events, clock)
        events.start()
        stack.push_async_callback(events.stop)
        owner = SessionOwner(store, clock, new_id(), _terms(policy))
        stack.push_async_callback(owner.stop)
        takeover = Takeover(store, owner, engine.recovery, clock)
        capacity = Capacity(policy.runtime.max_concurrent_turns)
        supervisor = TurnSupervisor(store, events, owner, capacity, engine.runner, clock)
        turns = TurnService(policy, store, events, owner, takeover, capacity, supervisor, clock)
        sessions = SessionService(store, engine.runner, clock)
        attachments = AttachmentService(store, blobs, clock, policy.storage.max_upload_bytes)

        def add_servicers(server: grpc.aio.Server) -> None:
            session_service_pb2_grpc.add_SessionServiceServicer_to_server(SessionServicer(sessions, turns), server)
            attachment_service_pb2_grpc.add_AttachmentServiceServicer_to_server(AttachmentServicer(attachments), server)
            artifact_service_pb2_grpc.add_ArtifactServiceServicer_to_server(ArtifactServicer(turns), server)
            skill_service_pb2_grpc.add_SkillServiceServicer_to_server(SkillServicer(), server)
            workspace_service_pb2_grpc.add_WorkspaceServiceServicer_to_server(WorkspaceServicer(), server)

        server = build_server(policy, NAME, add_servicers, keys.verifier(policy, self._env))
        await owner.start(
            advertised(policy.bind_address(NAME)), alone=alone, on_lost=supervisor.lose, take_over=takeover.settle
        )
        stack.push_async_callback(self._drain, _Parts(server, turns, supervisor))
        port = await server.start()
        address = self._bound(port)
        owner.address = advertised(address)
        return address

    async def _drain(self, parts: _Parts) -> None:
        """Take no further calls; end admissions, then Turns, then streams."""
        closing = asyncio.create_task(parts.server.stop(self._grace + _STREAM_SECONDS))
        await parts.turns.close()
        await parts.supervisor.stop(self._grace)
        await closing
        # Streams that were cut just now may have asked for their Turn's end.
        await parts.turns.close()


def _terms(policy: Policy) -> Terms:
    runtime = policy.runtime
    return Terms(runtime.lease_seconds, runtime.heartbeat_seconds, runtime.session_idle_seconds)
