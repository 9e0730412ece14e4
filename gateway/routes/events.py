"""A Turn's events: live and resumable, or as one array."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import grpc.aio
import orjson
from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from fleet.session.v1.session_service_pb2 import WatchTurnRequest

from gateway.backends import BackendsDep
from gateway.event_streams import MEDIA_TYPE, EventStreamsDep, Format
from gateway.names import Id, turn_name
from gateway.openapi import refusals
from services.common.errors import FieldViolation, FleetError
from services.common.event_json import event_json

router = APIRouter(prefix="/v1", tags=["turns"])

_LIMIT = 2**63 - 1
_STREAM: dict[str, Any] = {"schema": {"$ref": "#/components/schemas/EventFrame"}}


@router.get(
    "/turns/{turn_id}/events",
    responses={
        200: {
            "description": "The events: a stream, or an array where `stream` is false.",
            "content": {
                MEDIA_TYPE: _STREAM,
                "application/json": {"schema": {"$ref": "#/components/schemas/EventList"}},
            },
        },
        204: {"description": "The Turn has ended, and the client has seen all of it."},
        **refusals(s404="There is no such Turn.", s416="The Turn has ended and has no such event."),
    },
)
async def watch_turn(
    turn_id: Id,
    services: BackendsDep,
    streams: EventStreamsDep,
    after: Annotated[int, Query(ge=0, le=_LIMIT, description="The last sequence already seen.")] = 0,
    stream: Annotated[bool, Query(description="false returns what is stored as one JSON array.")] = True,
    format: Format = "events",
    last_event_id: Annotated[str | None, Header(description="As `after`; sent by browsers that reconnect.")] = None,
) -> Response:
    """Replay a Turn's events after a sequence, then go on live until its last one."""
    seen = _sequence(last_event_id) if last_event_id is not None else after
    if format != "events" and (seen or not stream):
        raise _invalid("format", "is a stream of the whole Turn: it has neither after nor stream=false")
    wanted = WatchTurnRequest(turn=turn_name(turn_id), after_sequence=seen, snapshot=not stream)
    if stream:
        return streams.attach(wanted, format)
    call = services.sessions.WatchTurn(wanted)
    first = await call.read()
    return StreamingResponse(_array(call, first), media_type="application/json")


async def _array(call: Any, batch: Any) -> AsyncIterator[bytes]:
    """The events of a call as the text of one JSON array, a batch at a time."""
    opening = b"["
    try:
        while batch is not grpc.aio.EOF:
            if batch.events:
                yield opening + b",".join(orjson.dumps(event_json(event)) for event in batch.events)
                opening = b","
            batch = await call.read()
        yield b"]" if opening == b"," else b"[]"
    finally:
        call.cancel()


def _sequence(text: str) -> int:
    """The sequence in a `Last-Event-ID`.

    Raises:
        FleetError: INVALID_ARGUMENT: it is not a number that an event can have.
    """
    if text.isascii() and text.isdigit() and len(text) <= len(str(_LIMIT)) and int(text) <= _LIMIT:
        return int(text)
    raise _invalid("Last-Event-ID", "must be the id of an event: a whole number")


def _invalid(field: str, description: str) -> FleetError:
    return FleetError("INVALID_ARGUMENT", f"{field} {description}", violations=[FieldViolation(field, description)])
