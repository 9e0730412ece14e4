"""Turns over REST, and over server-sent events when the client accepts them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse
from fleet.common.v1.budget_pb2 import BudgetLimits
from fleet.session.v1 import session_service_pb2, turn_pb2
from google.protobuf.duration_pb2 import Duration

from gateway.backends import BackendsDep
from gateway.names import Id, attachment_name, session_name, turn_name
from gateway.routes.sessions import PageSize, PageToken
from gateway.schemas import TurnCreate
from gateway.sse import EventStream
from services.common.proto_json import to_json

router = APIRouter(prefix="/v1", tags=["turns"])

IdempotencyKey = Annotated[
    str | None,
    Header(pattern=r"^[!-~]{1,128}$", description="The same key with the same body attaches to its Turn for ever."),
]


@router.post("/sessions/{session_id}/turns", status_code=202)
async def create_turn(
    session_id: Id,
    body: TurnCreate,
    services: BackendsDep,
    request: Request,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Start a Turn: 202 with the Turn, or its events live when `Accept` names `text/event-stream`."""
    wanted = _run_request(session_id, body, idempotency_key or uuid4().hex)
    if "text/event-stream" in request.headers.get("accept", ""):
        stream = EventStream(services.sessions, request.app.state.draining)
        return await stream.respond(services.sessions.RunTurn(wanted))
    turn = to_json(await services.sessions.CreateTurn(wanted))
    return JSONResponse(turn, 202, {"Location": f"/v1/turns/{turn['id']}"})


@router.get("/sessions/{session_id}/turns")
async def list_turns(
    session_id: Id, services: BackendsDep, page_size: PageSize = 0, page_token: PageToken = ""
) -> dict[str, Any]:
    """List a Session's Turns, oldest first."""
    request = session_service_pb2.ListTurnsRequest(
        parent=session_name(session_id), page_size=page_size, page_token=page_token
    )
    return to_json(await services.sessions.ListTurns(request))


@router.get("/turns/{turn_id}")
async def get_turn(turn_id: Id, services: BackendsDep) -> dict[str, Any]:
    """Return a Turn."""
    return to_json(await services.sessions.GetTurn(session_service_pb2.GetTurnRequest(name=turn_name(turn_id))))


@router.post("/turns/{turn_id}:cancel", status_code=202)
async def cancel_turn(turn_id: Id, services: BackendsDep) -> dict[str, Any]:
    """Cancel a running Turn; an ended one is returned as it is."""
    return to_json(await services.sessions.CancelTurn(session_service_pb2.CancelTurnRequest(name=turn_name(turn_id))))


def _run_request(session_id: str, body: TurnCreate, request_id: str) -> session_service_pb2.RunTurnRequest:
    cancel = body.on_disconnect == "cancel"
    wanted = session_service_pb2.RunTurnRequest(
        session=session_name(session_id),
        request_id=request_id,
        text=body.text,
        attachments=[attachment_name(attachment) for attachment in body.attachments],
        skills=[turn_pb2.SkillSelection(id=skill.id, version=skill.version) for skill in body.skills],
        budget=BudgetLimits(**body.budget.model_dump()),
        on_disconnect=turn_pb2.ON_DISCONNECT_CANCEL if cancel else turn_pb2.ON_DISCONNECT_CONTINUE,
    )
    if body.timeout_seconds is not None:
        wanted.timeout.CopyFrom(Duration(nanos=0))
        wanted.timeout.FromNanoseconds(int(body.timeout_seconds * 1e9))
    return wanted
