"""The supervisor's end of the channel to the host."""

from __future__ import annotations

import os

from . import frames
from .delivery import Inbox, Outbox
from .frames import Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Larger reads would make the allocator map and unmap memory every time.
_READ_BYTES = 1 << 16
_BUFFER_BYTES = 8 << 20


class HostChannel:
    """Reads and writes frames without blocking; numbers what it sends and takes each request once.

    Args:
        reader: Descriptor to read from.
        writer: Descriptor to write to; may be the same.
    """

    def __init__(self, reader: int, writer: int) -> None:
        self.reader = reader
        self.writer = writer
        self.epoch = 0
        self.inbox = Inbox()
        self.outbox = Outbox()
        self._decoder = frames.Decoder()
        self._pending = bytearray()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)

    @property
    def has_pending(self) -> bool:
        """Whether bytes wait until the descriptor takes them."""
        return bool(self._pending)

    @property
    def congested(self) -> bool:
        """Whether so much waits that model code should be slowed down."""
        return len(self._pending) > _BUFFER_BYTES

    def receive(self) -> list[Frame] | None:
        """Return the frames that arrived, or None when the host has closed the channel.

        Raises:
            FrameError: The host's bytes are not frames.
        """
        try:
            data = os.read(self.reader, _READ_BYTES)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            return None
        return self._decoder.feed(data) if data else None

    def send(self, type_: int, control: dict[str, Any] | None = None, body: bytes = b"") -> None:
        """Number a frame, keep it until it is acknowledged, and write it at the next `flush`."""
        frame = Frame(type_, control, body, epoch=self.epoch)
        if self.outbox.add(frame):
            self.write(frame)

    def write(self, frame: Frame) -> None:
        """Write a frame as it is at the next `flush`; several go out together."""
        frame.ack = self.inbox.taken
        self._pending += frames.encode(frame)

    def flush(self) -> None:
        """Write as much as the descriptor takes."""
        try:
            while self._pending:
                del self._pending[: os.write(self.writer, memoryview(self._pending)[:_READ_BYTES])]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            # The reading side reports the end of the channel.
            self._pending.clear()

    def begin(self, epoch: int) -> None:
        """Start an epoch or a client that knows nothing of an earlier one: numbers begin again."""
        self.epoch = epoch
        self.inbox.reset()
        self.outbox.reset()

    def resume(self, last_sequence: int) -> None:
        """Write again what was sent after a sequence that the host has seen."""
        self.outbox.acknowledge(last_sequence)
        for frame in self.outbox.after(last_sequence):
            self.write(frame)
