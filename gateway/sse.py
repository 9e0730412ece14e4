"""A Turn's event stream as one HTTP answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from enum import Enum, auto
from typing import Any

import grpc.aio
from fastapi.responses import Response
from fleet.session.v1.turn_event_pb2 import TurnEventBatch
from prometheus_client import Gauge
from starlette.types import Receive, Scope, Send

from gateway.event_frames import FrameEncoder
from gateway.turn_watch import TurnWatch
from services.common.errors import FleetError
from services.common.logging import get_logger

SILENCE_SECONDS = 15.0
"""A comment is sent after so much silence, since proxies cut quiet connections."""

ATTACH_SECONDS = 1.0
"""A stream that attaches to a Turn begins after so much silence: the Turn exists and has nothing to say yet."""

STREAM_MARK = "event_stream"
"""Key in the state of a request whose answer is an event stream."""

HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
OPEN = Gauge("gateway_event_streams", "Event streams that are open.")

_COMMENT = b": still here\n\n"
_LOG = get_logger(__name__)


class _Signal(Enum):
    """What happened instead of events."""

    END = auto()
    SILENCE = auto()
    GONE = auto()
    DRAINING = auto()


class EventStream(Response):
    """The answer that streams what a watch reads.

    It is 204 when the Turn has ended and the client has seen all of it, which stops a browser from reconnecting. A
    refusal before the first event is raised, so that it becomes a problem document. The stream ends after the Turn's
    last event, when the client goes, or with the encoder's cut when the gateway drains or the session service is lost.
    """

    media_type = "text/event-stream"

    def __init__(
        self, watch: TurnWatch, encoder: FrameEncoder, draining: asyncio.Event, silence: float, *, attach: bool
    ) -> None:
        """Args: what to read and to write, when to stop, when to comment, and whether the Turn exists already."""
        super().__init__(headers={**HEADERS, **encoder.headers})
        del self.headers["content-length"]
        self._watch = watch
        self._encoder = encoder
        self._draining_event = draining
        self._silence = silence
        self._attach = attach
        self._tasks: list[asyncio.Task[Any]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the answer; returns when it has ended and everything it used is released."""
        self._gone = self._start(_disconnected(receive))
        self._draining = self._start(self._draining_event.wait())
        self._reading: asyncio.Task[TurnEventBatch | None] | None = None
        try:
            await self._serve(scope, receive, send)
        finally:
            for task in self._tasks:
                task.cancel()
            if self._reading is not None:
                self._reading.cancel()
                self._tasks.append(self._reading)
            self._watch.close()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = await self._next(ATTACH_SECONDS if self._attach else None)
        if first is _Signal.GONE:
            return
        if first is _Signal.DRAINING:
            raise FleetError("UNAVAILABLE", "the gateway is shutting down", retry_after=1.0)
        if first is _Signal.END:
            await Response(status_code=204)(scope, receive, send)
            return
        self._watch.resumes = True
        scope["state"][STREAM_MARK] = True
        if not self._attach:
            self.headers["Location"] = f"/v1/turns/{self._watch.turn.rpartition('/')[2]}"
        with OPEN.track_inprogress():
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._pass_on(first, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_on(self, found: TurnEventBatch | _Signal, send: Send) -> None:
        while True:
            if isinstance(found, TurnEventBatch):
                await _piece(send, self._encoder.events(found.events))
                if self._watch.ended:
                    # The call is read to its end, so that it counts as finished and not as given up.
                    await self._next_or_cut()
                    await _piece(send, self._encoder.end())
                    return
            elif found is _Signal.SILENCE:
                await _piece(send, _COMMENT)
            elif found is _Signal.GONE:
                return
            else:
                await _piece(send, self._encoder.cut())
                return
            found = await self._next_or_cut()

    async def _next_or_cut(self) -> TurnEventBatch | _Signal:
        try:
            return await self._next(self._silence)
        except (grpc.aio.AioRpcError, TimeoutError) as error:
            reason = error.code().name if isinstance(error, grpc.aio.AioRpcError) else "TIMEOUT"
            _LOG.warning("an event stream was cut: the session service failed", turn=self._watch.turn, reason=reason)
            return _Signal.END

    async def _next(self, patience: float | None) -> TurnEventBatch | _Signal:
        if self._reading is None:
            self._reading = asyncio.create_task(self._watch.read())
        waiting = {self._reading, self._gone, self._draining}
        await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if self._gone.done():
            return _Signal.GONE
        if self._draining.done():
            return _Signal.DRAINING
        if not self._reading.done():
            return _Signal.SILENCE
        reading, self._reading = self._reading, None
        return reading.result() or _Signal.END

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _piece(send: Send, data: bytes) -> None:
    if data:
        await send({"type": "http.response.body", "body": data, "more_body": True})
