"""Turn events as JSON objects, and the dotted names of their types."""

from __future__ import annotations

from fleet.session.v1.turn_event_pb2 import TurnEvent

from services.common.proto_json import Json, to_json

TERMINAL = frozenset({"turn.completed", "turn.failed", "turn.cancelled", "turn.timed_out"})
"""Types of the events that end a Turn."""


def event_type(event: TurnEvent) -> str:
    """The event's dotted type, such as `turn.started`; `unknown` for payloads of a later release."""
    payload = event.WhichOneof("payload")
    return payload.replace("_", ".", 1) if payload else "unknown"


def event_json(event: TurnEvent) -> dict[str, Json]:
    """The event's `data` object: its envelope, then the fields of its payload."""
    data: dict[str, Json] = {
        "turn": event.turn,
        "sequence": event.sequence,
        "type": event_type(event),
        "time": event.time.ToJsonString(),
    }
    payload = event.WhichOneof("payload")
    if payload:
        data.update(to_json(getattr(event, payload)))
    return data
