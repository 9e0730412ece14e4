"""A running sandbox as its broker holds it: one reader of its channel, at most one client at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from services.common.errors import FleetError
from services.sandbox.agent import frames
from services.sandbox.agent.frames import Frame
from services.sandbox.providers.base import FrameChannel, SandboxInfo

_QUEUED_FRAMES = 64


class Client:
    """One stream to the sandbox. A later one takes over from it."""

    def __init__(self, runtime: Runtime, epoch: int) -> None:
        self._runtime = runtime
        self._epoch = epoch
        self._arrived: asyncio.Queue[Frame | FleetError] = asyncio.Queue(_QUEUED_FRAMES)
        self._ended = asyncio.Event()

    async def send(self, frame: Frame) -> None:
        """Pass a request on.

        Raises:
            FleetError: `LEASE_LOST` when the sandbox is gone.
        """
        frame.epoch = self._epoch
        if not self._ended.is_set():
            await self._runtime.send(frame)

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield what the sandbox says, until it is gone: then one LOST frame.

        Raises:
            FleetError: `SANDBOX_PROTOCOL` when a later stream took over.
        """
        while True:
            item = await self._arrived.get()
            if isinstance(item, FleetError):
                raise item
            yield item
            if item.type == frames.LOST:
                return

    async def deliver(self, frame: Frame) -> None:
        """Hand a frame over, waiting while the client is slow, unless it has ended."""
        if self._arrived.full():
            putting = asyncio.ensure_future(self._arrived.put(frame))
            ending = asyncio.ensure_future(self._ended.wait())
            try:
                await asyncio.wait((putting, ending), return_when=asyncio.FIRST_COMPLETED)
            finally:
                putting.cancel()
                ending.cancel()
        elif not self._ended.is_set():
            self._arrived.put_nowait(frame)

    def end(self, last_word: Frame | FleetError | None = None) -> None:
        """Take nothing more.

        Args:
            last_word: A LOST frame, or an error that is raised to who reads; it finds room even in a full queue.
        """
        self._ended.set()
        if last_word is not None:
            if self._arrived.full():
                self._arrived.get_nowait()
            self._arrived.put_nowait(last_word)


class Runtime:
    """Owns the channel of a sandbox.

    What arrives without a client is dropped: the agent keeps it until it is acknowledged and repeats it.

    Args:
        info: The sandbox.
        channel: Its channel.
        on_lost: Called once when the sandbox ends by itself.
    """

    def __init__(self, info: SandboxInfo, channel: FrameChannel, on_lost: Callable[[Runtime], None]) -> None:
        self.info = info
        self.lost = False
        self._channel = channel
        self._on_lost = on_lost
        self._client: Client | None = None
        self._reader = asyncio.create_task(self._read(), name=f"sandbox {info.name}")

    async def _read(self) -> None:
        while (frame := await self._channel.receive()) is not None:
            if self._client is not None:
                await self._client.deliver(frame)
        self.lost = True
        self._end_client("The sandbox ended.")
        self._on_lost(self)

    def _end_client(self, reason: str) -> None:
        if self._client is not None:
            self._client.end(Frame(frames.LOST, {"reason": reason}))

    def attach(self, epoch: int) -> Client:
        """Return a client; the one before it ends."""
        if self._client is not None:
            self._client.end(FleetError("SANDBOX_PROTOCOL", "Another stream of this lease took over."))
        self._client = Client(self, epoch)
        return self._client

    def detach(self, client: Client) -> None:
        """Let a client go; the sandbox goes on."""
        client.end()
        if self._client is client:
            self._client = None

    async def send(self, frame: Frame) -> None:
        """Pass a frame on to the sandbox.

        Raises:
            FleetError: `LEASE_LOST` when it is gone.
        """
        await self._channel.send(frame)

    async def close(self, reason: str) -> None:
        """Tell the client, then stop reading; the sandbox itself is its provider's to remove."""
        self._reader.cancel()
        await asyncio.wait((self._reader,))
        if not self.lost:
            self.lost = True
            self._end_client(reason)
