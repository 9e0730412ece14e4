"""Sessions over REST."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fleet.session.v1 import session_pb2, session_service_pb2
from google.protobuf.field_mask_pb2 import FieldMask

from gateway.backends import BackendsDep
from gateway.names import Id, session_name
from gateway.schemas import SessionCreate, SessionUpdate
from services.common.proto_json import to_json

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])

PageSize = Annotated[int, Query(ge=0, le=200, description="0 means 50.")]
PageToken = Annotated[str, Query(max_length=512, description="next_page_token of the previous page.")]


@router.post("", status_code=201)
async def create_session(body: SessionCreate, services: BackendsDep, response: Response) -> dict[str, Any]:
    """Make a Session."""
    wanted = session_pb2.Session(title=body.title, labels=body.labels)
    made = await services.sessions.CreateSession(session_service_pb2.CreateSessionRequest(session=wanted))
    session = to_json(made)
    response.headers["Location"] = f"/v1/sessions/{session['id']}"
    return session


@router.get("")
async def list_sessions(
    services: BackendsDep,
    page_size: PageSize = 0,
    page_token: PageToken = "",
    state: Annotated[Literal["ACTIVE", "ARCHIVED"] | None, Query()] = None,
) -> dict[str, Any]:
    """List the workspace's Sessions, latest update first."""
    wanted = _state(state) if state else session_pb2.SESSION_STATE_UNSPECIFIED
    request = session_service_pb2.ListSessionsRequest(page_size=page_size, page_token=page_token, state=wanted)
    return to_json(await services.sessions.ListSessions(request))


@router.get("/{session_id}")
async def get_session(session_id: Id, services: BackendsDep) -> dict[str, Any]:
    """Return a Session."""
    request = session_service_pb2.GetSessionRequest(name=session_name(session_id))
    return to_json(await services.sessions.GetSession(request))


@router.patch("/{session_id}")
async def update_session(session_id: Id, body: SessionUpdate, services: BackendsDep) -> dict[str, Any]:
    """Set a Session's title, labels or state."""
    mask = [name for name in ("title", "labels", "state") if getattr(body, name) is not None]
    wanted = session_pb2.Session(
        name=session_name(session_id), title=body.title or "", labels=body.labels or {}, etag=body.etag
    )
    if body.state is not None:
        wanted.state = _state(body.state)
    request = session_service_pb2.UpdateSessionRequest(session=wanted, update_mask=FieldMask(paths=mask))
    return to_json(await services.sessions.UpdateSession(request))


@router.delete("/{session_id}", status_code=204)
async def delete_session(session_id: Id, services: BackendsDep) -> None:
    """Delete a Session with its Turns and events."""
    await services.sessions.DeleteSession(session_service_pb2.DeleteSessionRequest(name=session_name(session_id)))


def _state(text: str) -> session_pb2.SessionState.ValueType:
    return session_pb2.SessionState.Value(f"SESSION_STATE_{text}")
