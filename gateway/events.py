"""Turn events as server-sent event frames."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from fleet.session.v1.turn_event_pb2 import TurnEvent

from services.common.event_json import event_json, event_type


def frames(events: Iterable[TurnEvent]) -> bytes:
    """Server-sent event frames of `events`, in one piece of bytes."""
    return b"".join(_frame(event) for event in events)


def _frame(event: TurnEvent) -> bytes:
    head = f"event: {event_type(event)}\nid: {event.sequence}\ndata: ".encode()
    return head + orjson.dumps(event_json(event)) + b"\n\n"
