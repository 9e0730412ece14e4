"""Turns over REST, and over server-sent events when the client accepts them."""

from __future__ import annotations

from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Header, Request, Response
from fleet.common.v1.budget_pb2 import BudgetLimits
from fleet.session.v1 import session_service_pb2, turn_pb2
from google.protobuf.duration_pb2 import Duration

from gateway.backends import BackendsDep
from gateway.bodies import TurnCreate
from gateway.event_streams import MEDIA_TYPE, EventStreamsDep, Format
from gateway.names import Id, attachment_name, session_name, turn_name
from gateway.openapi import answer, refusals
from gateway.pages import PageSize, PageToken
from gateway.replies import made, reply

router = APIRouter(prefix="/v1", tags=["turns"])

IdempotencyKey = Annotated[
    str | None,
    Header(pattern=r"^[!-~]{1,128}$", description="The same key with the same body attaches to its Turn for ever."),
]

_NO_SESSION = "There is no such Session."
_NO_TURN = "There is no such Turn."


@router.post(
    "/sessions/{session_id}/turns",
    status_code=202,
    responses={
        **answer(200, "The Turn's events, live, where `Accept` or `format` asks for them.", "EventFrame", MEDIA_TYPE),
        **answer(202, "The Turn, whatever its state; `Location` is its path.", "Turn"),
        **refusals(
            s404="There is no such Session, attachment or Skill.",
            s409="The Session runs another Turn, which `Location` gives, or is archived.",
            s429="The server runs as many Turns as it may.",
        ),
    },
)
async def create_turn(
    session_id: Id,
    body: TurnCreate,
    services: BackendsDep,
    streams: EventStreamsDep,
    request: Request,
    idempotency_key: IdempotencyKey = None,
    format: Format = "events",
) -> Response:
    """Start a Turn: 202 with the Turn, or its events live when `Accept` names `text/event-stream`."""
    wanted = _run_request(session_id, body, idempotency_key or uuid4().hex)
    if format != "events" or MEDIA_TYPE in request.headers.get("accept", "").lower():
        return streams.run(wanted, format)
    return made(await services.sessions.CreateTurn(wanted), "/v1/turns", 202)


@router.get(
    "/sessions/{session_id}/turns",
    responses={**answer(200, "A page.", "TurnList"), **refusals(s404=_NO_SESSION)},
)
async def list_turns(
    session_id: Id, services: BackendsDep, page_size: PageSize = 0, page_token: PageToken = ""
) -> Response:
    """List a Session's Turns, oldest first."""
    request = session_service_pb2.ListTurnsRequest(
        parent=session_name(session_id), page_size=page_size, page_token=page_token
    )
    return reply(await services.sessions.ListTurns(request))


@router.get("/turns/{turn_id}", responses={**answer(200, "The Turn.", "Turn"), **refusals(s404=_NO_TURN)})
async def get_turn(turn_id: Id, services: BackendsDep) -> Response:
    """Return a Turn."""
    return reply(await services.sessions.GetTurn(session_service_pb2.GetTurnRequest(name=turn_name(turn_id))))


@router.post(
    "/turns/{turn_id}:cancel",
    status_code=202,
    responses={
        **answer(202, "The Turn, ended where that took no longer than a moment.", "Turn"),
        **refusals(s404=_NO_TURN, s409="Another replica runs it."),
    },
)
async def cancel_turn(turn_id: Id, services: BackendsDep) -> Response:
    """Cancel a running Turn; an ended one is returned as it is."""
    request = session_service_pb2.CancelTurnRequest(name=turn_name(turn_id))
    return reply(await services.sessions.CancelTurn(request), 202)


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
        duration = Duration()
        duration.FromNanoseconds(round(body.timeout_seconds * 1e9))
        wanted.timeout.CopyFrom(duration)
    return wanted
