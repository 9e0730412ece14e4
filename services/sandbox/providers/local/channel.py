"""The agent's channel over a local socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from services.common.errors import FleetError
from services.sandbox.agent import frames
from services.sandbox.agent.frames import Frame, FrameError

_BUFFER_BYTES = 1 << 20


class SocketChannel:
    """Frames over a stream socket; a `FrameChannel`.

    Args:
        reader: Bytes from the agent.
        writer: Bytes to it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, endpoint: socket.socket) -> SocketChannel:
        """Take over a connected socket."""
        endpoint.setblocking(False)
        return cls(*await asyncio.open_connection(sock=endpoint, limit=_BUFFER_BYTES))

    async def send(self, frame: Frame) -> None:
        """Write a frame, waiting while the agent is slow to read.

        Raises:
            FleetError: `LEASE_LOST` when the sandbox is gone.
        """
        try:
            self._writer.write(frames.encode(frame))
            await self._writer.drain()
        except (ConnectionError, RuntimeError):
            raise FleetError("LEASE_LOST", "The sandbox is gone.") from None
        except FrameError:
            raise FleetError("SANDBOX_PROTOCOL", "A request is larger than the channel takes.") from None

    async def receive(self) -> Frame | None:
        """Return the next frame, or None when the sandbox is gone or no longer speaks the protocol."""
        try:
            header = await self._reader.readexactly(frames.HEADER_BYTES)
            frame, control_length, body_length = frames.decode_header(header)
            parts = await self._reader.readexactly(control_length + body_length)
            frame.control = frames.decode_control(parts[:control_length])
            frame.body = parts[control_length:]
        except (asyncio.IncompleteReadError, ConnectionError, FrameError):
            return None
        return frame

    async def close(self) -> None:
        """Close the broker's end; the agent then ends."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
