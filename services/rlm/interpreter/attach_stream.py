"""The stream to one sandbox: numbered messages, acknowledgements, and attaching again after a drop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import grpc
from fleet.sandbox.v1 import attach_pb2

from services.common.rpc_status import from_rpc_error

_LOG = logging.getLogger(__name__)
_BACKOFF_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)
_QUIET_SECONDS = 15.0
_DROPPED = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.CANCELLED,
    }
)
"""Statuses of a broken connection; any other is the broker's considered refusal."""


class _GoneError(Exception):
    """The connection ended in an orderly way; `final` when the sandbox is gone too."""

    def __init__(self, reason: str, *, final: bool) -> None:
        super().__init__(reason)
        self.final = final


class AttachStub(Protocol):
    """The part of the broker's stub that a stream needs."""

    @property
    def Attach(self) -> Any:  # noqa: N802 - the name of the RPC
        """The bidirectional method."""


class AttachListener(Protocol):
    """Takes what the sandbox says; called on the stream's event loop, must not block or raise."""

    def on_ready(self, ready: attach_pb2.Ready) -> None:
        """The sandbox answered an open."""

    def on_output(self, output: attach_pb2.Output) -> None:
        """Something was printed."""

    def on_tool_call(self, call: attach_pb2.ToolCall) -> None:
        """Sandbox code waits for a host tool."""

    def on_done(self, done: attach_pb2.Done) -> None:
        """An execution ended."""

    def on_lost(self, reason: str) -> None:
        """The stream is over for good; `reason` is in public words. Called once, not after `aclose`."""


class AttachStream:
    """Sends and receives on one lease's stream; everything but `send` belongs to the event loop.

    A dropped connection is attached again with the last sequence seen, a bounded number of times in a row; what the
    sandbox has not taken is sent again and what it repeats is dropped.
    """

    def __init__(
        self, stub: AttachStub, lease: str, epoch: int, loop: asyncio.AbstractEventLoop, listener: AttachListener
    ) -> None:
        self._stub = stub
        self._lease = lease
        self._epoch = epoch
        self._loop = loop
        self._listener = listener
        self._tools: Sequence[attach_pb2.ToolSpec] = ()
        self._fields: Sequence[attach_pb2.OutputField] = ()
        self._sequence = 0
        self._seen = 0
        self._unacked: deque[attach_pb2.AttachRequest] = deque()
        self._unsent: deque[attach_pb2.AttachRequest] = deque()
        self._wake = asyncio.Event()
        self._attached = False
        self._heard = 0.0
        self._first_number = 0
        self._task: asyncio.Task[None] | None = None

    def open(self, tools: Sequence[attach_pb2.ToolSpec], fields: Sequence[attach_pb2.OutputField]) -> None:
        """Say which tools and outputs there are, attaching first when need be; any thread. `on_ready` follows."""
        self._loop.call_soon_threadsafe(self._open, tools, fields)

    def send(self, **payload: Any) -> None:
        """Send one message, such as `execute=…`; any thread, returns at once."""
        self._loop.call_soon_threadsafe(self._enqueue, attach_pb2.AttachRequest(**payload))

    async def aclose(self) -> None:
        """End the stream; the lease and its sandbox stay."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _open(self, tools: Sequence[attach_pb2.ToolSpec], fields: Sequence[attach_pb2.OutputField]) -> None:
        self._tools, self._fields = tools, fields
        if self._task is None:
            # The very first opening has the number 1, whatever is sent before the connection is up.
            self._first_number = self._number_opening()
            self._task = self._loop.create_task(self._run(), name=f"attach {self._lease}")
        elif self._attached:
            self._enqueue(attach_pb2.AttachRequest(open=self._opening()))

    def _opening(self) -> attach_pb2.AttachOpen:
        return attach_pb2.AttachOpen(
            lease=self._lease,
            epoch=self._epoch,
            tools=self._tools,
            output_fields=self._fields,
            last_sequence=self._seen,
        )

    def _number_opening(self) -> int:
        """Return the number of an opening; should that get lost, a ping takes its number, so that none is missing."""
        self._sequence += 1
        self._unacked.append(attach_pb2.AttachRequest(sequence=self._sequence, ping=attach_pb2.Ping()))
        return self._sequence

    def _enqueue(self, request: attach_pb2.AttachRequest) -> None:
        self._sequence += 1
        request.sequence = self._sequence
        self._unacked.append(request)
        if self._attached:
            self._unsent.append(request)
            self._wake.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            seen = self._seen
            reason, final = await self._connect_once()
            if final or (failures >= len(_BACKOFF_SECONDS) and self._seen == seen):
                self._listener.on_lost(reason)
                return
            failures = 0 if self._seen > seen else failures
            _LOG.info("attach stream of %s dropped; attaching again", self._lease)
            await asyncio.sleep(_BACKOFF_SECONDS[failures])
            failures += 1

    async def _connect_once(self) -> tuple[str, bool]:
        """Run one connection to its end; return why it ended and whether that is final."""
        call = self._stub.Attach()
        helpers: list[asyncio.Task[None]] = []
        try:
            await self._greet(call)
            helpers = [self._loop.create_task(self._write(call)), self._loop.create_task(self._watch(call))]
            while True:
                self._take(await self._read(call))
        except _GoneError as gone:
            return str(gone), gone.final
        except grpc.aio.AioRpcError as error:
            return from_rpc_error(error).message, error.code() not in _DROPPED
        except (grpc.aio.UsageError, asyncio.InvalidStateError):
            return "The sandbox's stream broke.", False
        except asyncio.CancelledError:
            # A call that a helper hung up on reports it this way too.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return "The sandbox gave no sign of life.", False
        finally:
            self._attached = False
            call.cancel()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    async def _greet(self, call: Any) -> None:
        """Open the connection, then queue what the sandbox has not taken yet."""
        number, self._first_number = self._first_number or self._number_opening(), 0
        told = (self._tools, self._fields)
        await call.write(attach_pb2.AttachRequest(sequence=number, ack=self._seen, open=self._opening()))
        response = await self._read(call)
        while response.WhichOneof("payload") != "ready":
            # What comes before the first answer belongs to an earlier client of the lease, whose numbers it carries.
            if self._seen or response.WhichOneof("payload") == "lost":
                self._take(response)
            response = await self._read(call)
        self._forget(response.ready.last_sequence)
        self._unsent = deque(self._unacked)
        self._attached = True
        self._take(response)
        if told != (self._tools, self._fields):
            self._enqueue(attach_pb2.AttachRequest(open=self._opening()))
        self._wake.set()

    async def _read(self, call: Any) -> attach_pb2.AttachResponse:
        response = await call.read()
        if response is grpc.aio.EOF:
            code = await call.code()
            if code is grpc.StatusCode.OK:
                raise _GoneError("The sandbox's stream ended.", final=False)
            raise grpc.aio.AioRpcError(
                code, await call.initial_metadata(), await call.trailing_metadata(), await call.details()
            )
        if not isinstance(response, attach_pb2.AttachResponse):
            raise TypeError(f"a stream gave a {type(response).__name__}")
        return response

    async def _write(self, call: Any) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._unsent:
                    request = self._unsent.popleft()
                    request.ack = self._seen
                    await call.write(request)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The reading side learns of the broken connection and says why.
            call.cancel()

    async def _watch(self, call: Any) -> None:
        """Ask for a sign of life when nothing was heard for a while; hang up when none comes."""
        self._heard = self._loop.time()
        while True:
            await asyncio.sleep(_QUIET_SECONDS)
            quiet = self._loop.time() - self._heard
            if quiet > 2 * _QUIET_SECONDS:
                call.cancel()
                return
            if quiet > _QUIET_SECONDS * 0.9:
                self._enqueue(attach_pb2.AttachRequest(ping=attach_pb2.Ping(nonce=self._sequence)))

    def _take(self, response: attach_pb2.AttachResponse) -> None:
        """Handle one message.

        Raises:
            _GoneError: the sandbox is gone.
        """
        self._heard = self._loop.time()
        self._forget(response.ack)
        if response.sequence:
            if response.sequence <= self._seen:
                return
            self._seen = response.sequence
        match response.WhichOneof("payload"):
            case "output":
                self._listener.on_output(response.output)
            case "tool_call":
                self._listener.on_tool_call(response.tool_call)
            case "done":
                self._listener.on_done(response.done)
            case "ready":
                self._listener.on_ready(response.ready)
            case "lost":
                raise _GoneError(response.lost.reason or "The sandbox is gone.", final=True)
            case _:
                pass

    def _forget(self, taken: int) -> None:
        while self._unacked and self._unacked[0].sequence <= taken:
            self._unacked.popleft()
