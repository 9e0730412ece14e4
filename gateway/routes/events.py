"""A Turn's events: live and resumable, or as one array."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from fleet.session.v1.session_service_pb2 import WatchTurnRequest

from gateway.backends import BackendsDep
from gateway.names import Id, turn_name
from gateway.sse import EventStream
from services.common.errors import FieldViolation, FleetError
from services.common.event_json import event_json

router = APIRouter(prefix="/v1", tags=["turns"])

_LIMIT = 2**63 - 1


@router.get("/turns/{turn_id}/events")
async def watch_turn(
    turn_id: Id,
    services: BackendsDep,
    request: Request,
    after: Annotated[int, Query(ge=0, le=_LIMIT, description="The last sequence already seen.")] = 0,
    stream: Annotated[bool, Query(description="false returns what is stored as one JSON array.")] = True,
    last_event_id: Annotated[str | None, Header(description="As `after`; sent by browsers that reconnect.")] = None,
) -> Response:
    """Replay a Turn's events after a sequence, then go on live until its last one."""
    seen = _sequence(last_event_id) if last_event_id is not None else after
    wanted = WatchTurnRequest(turn=turn_name(turn_id), after_sequence=seen, snapshot=not stream)
    call = services.sessions.WatchTurn(wanted)
    if stream:
        return await EventStream(services.sessions, request.app.state.draining).respond(call, seen)
    return JSONResponse([event_json(event) async for batch in call for event in batch.events])


def _sequence(text: str) -> int:
    """The sequence in a `Last-Event-ID`.

    Raises:
        FleetError: INVALID_ARGUMENT: it is not a number that an event can have.
    """
    if text.isascii() and text.isdigit() and int(text) <= _LIMIT:
        return int(text)
    violation = FieldViolation("Last-Event-ID", "must be the id of an event: a whole number")
    raise FleetError("INVALID_ARGUMENT", "Last-Event-ID is not the id of an event", violations=[violation])
