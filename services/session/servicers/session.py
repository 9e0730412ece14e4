"""fleet.session.v1.SessionService over the use cases: translation, nothing else."""

# ruff: noqa: N802  The contract names the methods.

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc
from fleet.session.v1 import session_pb2, session_service_pb2_grpc, turn_event_pb2, turn_pb2
from fleet.session.v1 import session_service_pb2 as pb
from google.protobuf.empty_pb2 import Empty

from services.common.request_context import current_principal
from services.session import names
from services.session.refusals import invalid
from services.session.servicers import translate
from services.session.sessions.service import SessionService
from services.session.sessions.session import SessionPatch
from services.session.turns.service import TurnService
from services.session.turns.turn import Turn

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_SESSION_NAME = re.compile(r"sessions/[0-9a-z]{1,64}")
_FIELDS = ("title", "labels", "state")


class SessionServicer(session_service_pb2_grpc.SessionServiceServicer):
    """Sessions and their Turns."""

    def __init__(self, sessions: SessionService, turns: TurnService) -> None:
        self._sessions = sessions
        self._turns = turns

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> session_pb2.Session:
        """Make a Session."""
        given = request.session
        workspace = current_principal().workspace
        return translate.session_message(await self._sessions.create(workspace, given.title, dict(given.labels)))

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> session_pb2.Session:
        """Return a Session."""
        found = await self._sessions.get(current_principal().workspace, names.session_id(request.name))
        return translate.session_message(found)

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        """List the workspace's Sessions."""
        state = translate.session_state(request.state)
        workspace = current_principal().workspace
        page = await self._sessions.page(workspace, state, request.page_size, request.page_token)
        messages = [translate.session_message(each) for each in page.items]
        return pb.ListSessionsResponse(sessions=messages, next_page_token=page.next_token)

    async def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> session_pb2.Session:
        """Change the fields of a Session that the mask names."""
        given = request.session
        if not _SESSION_NAME.fullmatch(given.name):
            raise invalid("session.name", "must be a Session's name, sessions/{id}")
        patch = _patch(given, list(request.update_mask.paths))
        workspace = current_principal().workspace
        changed = await self._sessions.update(workspace, names.session_id(given.name), patch, given.etag)
        return translate.session_message(changed)

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> Empty:
        """Delete a Session with all that is in it."""
        await self._sessions.delete(current_principal().workspace, names.session_id(request.name))
        return Empty()

    async def RunTurn(
        self, request: pb.RunTurnRequest, context: Context
    ) -> AsyncIterator[turn_event_pb2.TurnEventBatch]:
        """Start a Turn and stream its events; a stream that ends early cancels the Turn where that was asked."""
        turn = await self._run(request, context)
        whole = False
        try:
            async with aclosing(self._turns.watch(turn, 0)) as stream:
                async for events in stream:
                    yield turn_event_pb2.TurnEventBatch(events=events)
            whole = True
        finally:
            if not whole and request.on_disconnect == turn_pb2.ON_DISCONNECT_CANCEL:
                self._turns.cancel_soon(turn)

    async def CreateTurn(self, request: pb.RunTurnRequest, context: Context) -> turn_pb2.Turn:
        """Start a Turn and return it."""
        return translate.turn_message(await self._run(request, context))

    async def WatchTurn(
        self, request: pb.WatchTurnRequest, context: Context
    ) -> AsyncIterator[turn_event_pb2.TurnEventBatch]:
        """Stream a Turn's events after a sequence."""
        turn = await self._turn(request.turn)
        watch = self._turns.watch(turn, request.after_sequence, snapshot=request.snapshot)
        async with aclosing(watch) as stream:
            async for events in stream:
                yield turn_event_pb2.TurnEventBatch(events=events)

    async def GetTurn(self, request: pb.GetTurnRequest, context: Context) -> turn_pb2.Turn:
        """Return a Turn."""
        return translate.turn_message(await self._turn(request.name))

    async def ListTurns(self, request: pb.ListTurnsRequest, context: Context) -> pb.ListTurnsResponse:
        """List a Session's Turns."""
        session_id = names.session_id(request.parent)
        workspace = current_principal().workspace
        page = await self._turns.page(workspace, session_id, request.page_size, request.page_token)
        messages = [translate.turn_message(each) for each in page.items]
        return pb.ListTurnsResponse(turns=messages, next_page_token=page.next_token)

    async def CancelTurn(self, request: pb.CancelTurnRequest, context: Context) -> turn_pb2.Turn:
        """Cancel a running Turn."""
        session_id, turn_id = names.turn_ids(request.name)
        turn = await self._turns.cancel(current_principal().workspace, turn_id, session_id)
        return translate.turn_message(turn)

    async def _run(self, request: pb.RunTurnRequest, context: Context) -> Turn:
        return await self._turns.run(
            current_principal().workspace,
            names.session_id(request.session),
            request.request_id,
            translate.turn_input(request),
            context.time_remaining(),
        )

    async def _turn(self, name: str) -> Turn:
        session_id, turn_id = names.turn_ids(name)
        return await self._turns.get(current_principal().workspace, turn_id, session_id)


def _patch(given: session_pb2.Session, paths: list[str]) -> SessionPatch:
    chosen = _FIELDS if paths == ["*"] else tuple(paths)
    if not chosen or any(path not in _FIELDS for path in chosen):
        raise invalid("update_mask", "must name one or more of title, labels, state")
    state = translate.session_state(given.state) if "state" in chosen else None
    if "state" in chosen and state is None:
        raise invalid("session.state", "must be ACTIVE or ARCHIVED")
    return SessionPatch(
        title=given.title if "title" in chosen else None,
        labels=dict(given.labels) if "labels" in chosen else None,
        state=state,
    )
