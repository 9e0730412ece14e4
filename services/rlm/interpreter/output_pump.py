"""Streamed output: pieces of bytes become a bounded number of text events."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable

from services.rlm.events import Stream

_FLUSH_BYTES = 4096
_FLUSH_SECONDS = 0.05
_STEP_BYTES = 128 << 10


class OutputPump:
    """Coalesces one step's output; belongs to the event loop.

    Pieces go out when 4 KiB have come together or 50 ms have passed, and stop at 128 KiB a step: the final output has
    head and tail.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, emit: Callable[[Stream, str], None]) -> None:
        """Begin a step.

        Args:
            loop: runs the timer.
            emit: takes each piece.
        """
        self._loop = loop
        self._emit = emit
        self._stream: Stream = "stdout"
        self._buffer = bytearray()
        self._decoders = {"stdout": _decoder(), "stderr": _decoder()}
        self._left = _STEP_BYTES
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: Stream, data: bytes) -> None:
        """Take printed bytes."""
        if stream != self._stream:
            self.flush()
            self._stream = stream
        piece = data[: self._left]
        self._left -= len(piece)
        self._buffer += piece
        if len(self._buffer) >= _FLUSH_BYTES:
            self.flush()
        elif self._buffer and self._timer is None:
            self._timer = self._loop.call_later(_FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Send what has come together."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = self._decoders[self._stream].decode(bytes(self._buffer))
        self._buffer.clear()
        if text:
            self._emit(self._stream, text)


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")
