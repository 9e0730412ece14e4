"""The agent's channel over a local socket."""

from __future__ import annotations

import asyncio
import socket
from collections import deque

from services.common.errors import FleetError
from services.sandbox.agent import frames
from services.sandbox.agent.frames import Decoder, Frame, FrameError

_QUEUED_FRAMES = 256


class SocketChannel(asyncio.Protocol):
    """Frames over a stream socket; a `FrameChannel`. One task at a time may receive."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._frames: deque[Frame] = deque()
        self._arrived = asyncio.Event()
        self._closed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, endpoint: socket.socket) -> SocketChannel:
        """Take over a connected socket."""
        endpoint.setblocking(False)
        _, channel = await asyncio.get_running_loop().create_connection(cls, sock=endpoint)
        return channel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take bytes; those that break the protocol end the channel."""
        try:
            self._frames.extend(self._decoder.feed(data))
        except FrameError:
            self._abort()
            return
        if self._frames:
            self._arrived.set()
            if len(self._frames) >= _QUEUED_FRAMES and self._transport is not None:
                self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The sandbox, or the broker's own `close`, ended the channel."""
        self._closed.set()
        self._arrived.set()
        self._writable.set()

    def pause_writing(self) -> None:
        """The agent is slow to read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The agent has caught up."""
        self._writable.set()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def send(self, frame: Frame) -> None:
        """Write a frame, waiting while the agent is slow to read.

        Raises:
            FleetError: `LEASE_LOST` when the sandbox is gone.
        """
        try:
            data = frames.encode(frame)
        except FrameError:
            raise FleetError("SANDBOX_PROTOCOL", "A request is larger than the channel takes.") from None
        if self._closed.is_set() or self._transport is None or self._transport.is_closing():
            raise FleetError("LEASE_LOST", "The sandbox is gone.")
        self._transport.write(data)
        await self._writable.wait()

    async def receive(self) -> Frame | None:
        """Return the next frame, or None when the sandbox is gone or no longer speaks the protocol."""
        while not self._frames:
            if self._closed.is_set():
                return None
            self._arrived.clear()
            await self._arrived.wait()
        frame = self._frames.popleft()
        if len(self._frames) == _QUEUED_FRAMES // 2 and self._transport is not None:
            self._transport.resume_reading()
        return frame

    async def close(self) -> None:
        """Close the broker's end; the agent then ends."""
        self._abort()
        await self._closed.wait()
