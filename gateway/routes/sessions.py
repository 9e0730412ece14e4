"""Sessions over REST."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from fleet.session.v1 import session_pb2, session_service_pb2
from google.protobuf.field_mask_pb2 import FieldMask

from gateway.backends import BackendsDep
from gateway.bodies import SessionCreate, SessionUpdate
from gateway.names import Id, session_name
from gateway.openapi import answer, refusals
from gateway.pages import PageSize, PageToken
from gateway.replies import made, reply
from services.common.errors import FieldViolation, FleetError

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])

_SESSION = "The Session."
_UNKNOWN = "There is no such Session."


@router.post("", status_code=201, responses={**answer(201, _SESSION, "Session"), **refusals()})
async def create_session(body: SessionCreate, services: BackendsDep) -> Response:
    """Make a Session."""
    wanted = session_pb2.Session(title=body.title, labels=body.labels)
    session = await services.sessions.CreateSession(session_service_pb2.CreateSessionRequest(session=wanted))
    return made(session, "/v1/sessions")


@router.get("", responses={**answer(200, "A page.", "SessionList"), **refusals()})
async def list_sessions(
    services: BackendsDep,
    page_size: PageSize = 0,
    page_token: PageToken = "",
    state: Annotated[Literal["ACTIVE", "ARCHIVED"] | None, Query(description="Only Sessions in this state.")] = None,
) -> Response:
    """List the workspace's Sessions, latest update first."""
    wanted = _state(state) if state else session_pb2.SESSION_STATE_UNSPECIFIED
    request = session_service_pb2.ListSessionsRequest(page_size=page_size, page_token=page_token, state=wanted)
    return reply(await services.sessions.ListSessions(request))


@router.get("/{session_id}", responses={**answer(200, _SESSION, "Session"), **refusals(s404=_UNKNOWN)})
async def get_session(session_id: Id, services: BackendsDep) -> Response:
    """Return a Session."""
    request = session_service_pb2.GetSessionRequest(name=session_name(session_id))
    return reply(await services.sessions.GetSession(request))


@router.patch(
    "/{session_id}",
    responses={
        **answer(200, _SESSION, "Session"),
        **refusals(s404=_UNKNOWN, s409="It has changed since its `etag` was read."),
    },
)
async def update_session(session_id: Id, body: SessionUpdate, services: BackendsDep) -> Response:
    """Set a Session's title, labels or state."""
    mask = [name for name in ("title", "labels", "state") if getattr(body, name) is not None]
    if not mask:
        violation = FieldViolation("body", "must set one or more of title, labels, state")
        raise FleetError("INVALID_ARGUMENT", "there is nothing to set", violations=[violation])
    wanted = session_pb2.Session(
        name=session_name(session_id), title=body.title or "", labels=body.labels or {}, etag=body.etag
    )
    if body.state is not None:
        wanted.state = _state(body.state)
    request = session_service_pb2.UpdateSessionRequest(session=wanted, update_mask=FieldMask(paths=mask))
    return reply(await services.sessions.UpdateSession(request))


@router.delete(
    "/{session_id}",
    status_code=204,
    responses=refusals(s404=_UNKNOWN, s409="One of its Turns is running."),
)
async def delete_session(session_id: Id, services: BackendsDep) -> Response:
    """Delete a Session with its Turns and events."""
    await services.sessions.DeleteSession(session_service_pb2.DeleteSessionRequest(name=session_name(session_id)))
    return Response(status_code=204)


def _state(text: str) -> session_pb2.SessionState.ValueType:
    return session_pb2.SessionState.Value(f"SESSION_STATE_{text}")
