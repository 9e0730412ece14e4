"""A Turn's event stream as server-sent events over one HTTP response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from fastapi.responses import Response, StreamingResponse
from fleet.session.v1.session_service_pb2 import WatchTurnRequest
from fleet.session.v1.turn_event_pb2 import TurnEventBatch

from gateway.events import frames
from services.common.event_json import TERMINAL, event_type

if TYPE_CHECKING:
    from fleet.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub

SILENCE_SECONDS = 15.0
"""A comment is sent after so much silence, since proxies cut quiet connections."""

MAX_RESUMES = 5
"""How often one response picks up a broken stream of the session service again before it ends."""

HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}

Call = Any
"""A server-streaming call that yields TurnEventBatch messages."""


class EventStream:
    """Turns one call of RunTurn or WatchTurn into a response.

    The stream ends after the Turn's last event, when the client goes, or with `retry: 500` when the gateway drains.
    """

    def __init__(self, sessions: SessionServiceAsyncStub, draining: asyncio.Event) -> None:
        self._sessions = sessions
        self._draining = draining
        self._turn = ""
        self._seen = 0
        self._ended = False

    async def respond(self, call: Call, seen: int = 0) -> Response:
        """The response for `call`; a failure before the first event is raised, so that it becomes a problem document.

        Args:
            call: the started call.
            seen: the last sequence the client has.

        Returns:
            An event stream, or 204 when the Turn has ended and the client has seen all of it, which stops a browser
            from reconnecting.
        """
        self._seen = seen
        first = await call.read()
        if first is grpc.aio.EOF:
            return Response(status_code=204)
        return StreamingResponse(self._body(call, first), media_type="text/event-stream", headers=HEADERS)

    async def _body(self, call: Call, first: TurnEventBatch) -> AsyncIterator[bytes]:
        draining: asyncio.Future[Any] = asyncio.ensure_future(self._draining.wait())
        try:
            yield self._take(first)
            resumes = 0
            while not self._ended:
                try:
                    async for piece in self._pieces(call, draining):
                        yield piece
                    return
                except grpc.aio.AioRpcError as error:
                    if error.code() != grpc.StatusCode.UNAVAILABLE or resumes == MAX_RESUMES:
                        yield b"retry: 500\n\n"
                        return
                    resumes += 1
                    call = self._resume()
        finally:
            draining.cancel()
            call.cancel()

    async def _pieces(self, call: Call, draining: asyncio.Future[Any]) -> AsyncIterator[bytes]:
        reading: asyncio.Future[Any] | None = None
        try:
            while not self._ended:
                reading = reading or asyncio.ensure_future(call.read())
                await asyncio.wait({reading, draining}, timeout=SILENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    batch, reading = reading.result(), None
                    if batch is grpc.aio.EOF:
                        return
                    yield self._take(batch)
                elif draining.done():
                    yield b"retry: 500\n\n"
                    return
                else:
                    yield b": still here\n\n"
        finally:
            if reading is not None:
                reading.cancel()

    def _take(self, batch: TurnEventBatch) -> bytes:
        if batch.events:
            last = batch.events[-1]
            self._turn, self._seen = last.turn, last.sequence
            self._ended = event_type(last) in TERMINAL
        return frames(batch.events)

    def _resume(self) -> Call:
        request = WatchTurnRequest(turn=self._turn, after_sequence=self._seen)
        return self._sessions.WatchTurn(request, wait_for_ready=True, timeout=None)
