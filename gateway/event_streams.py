"""Makes the event streams of one gateway."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Depends, Query, Request
from fleet.session.v1.session_service_pb2 import RunTurnRequest, WatchTurnRequest

from gateway.event_frames import EventFrames, FrameEncoder
from gateway.sse import SILENCE_SECONDS, EventStream
from gateway.turn_watch import TurnWatch
from gateway.ui_messages import UiMessageFrames

if TYPE_CHECKING:
    from fleet.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub

MEDIA_TYPE = "text/event-stream"

Format = Annotated[
    Literal["events", "ui-message"],
    Query(description="`ui-message` streams the UI message stream of the Vercel AI SDK instead of events."),
]
"""A query parameter that chooses what a stream is made of."""


@dataclass(frozen=True)
class EventStreams:
    """What every event stream of a gateway shares.

    Attributes:
        sessions: the session service.
        draining: set when streams are to end.
        silence: seconds of silence until a comment.
    """

    sessions: SessionServiceAsyncStub
    draining: asyncio.Event
    silence: float = SILENCE_SECONDS

    def run(self, request: RunTurnRequest, form: str) -> EventStream:
        """The stream of a Turn that is started."""
        watch = TurnWatch.run(self.sessions, request)
        return EventStream(watch, encoder_of(form), self.draining, self.silence, attach=False)

    def attach(self, request: WatchTurnRequest, form: str) -> EventStream:
        """The stream of a Turn that exists."""
        watch = TurnWatch.attach(self.sessions, request)
        return EventStream(watch, encoder_of(form), self.draining, self.silence, attach=True)


def encoder_of(form: str) -> FrameEncoder:
    """The encoder of a `format`."""
    return UiMessageFrames() if form == "ui-message" else EventFrames()


def event_streams(request: Request) -> EventStreams:
    """The event streams of the application that serves `request`."""
    found: EventStreams = request.app.state.streams
    return found


EventStreamsDep = Annotated[EventStreams, Depends(event_streams)]
"""A route parameter that receives the event streams."""
