"""Lines of standard input, awaited without a thread, so that Ctrl-C at a prompt ends the program at once."""

from __future__ import annotations

import asyncio
import os

READ_BYTES = 65_536


class Lines:
    """Lines of the file descriptor `source`, without their ends."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._read = b""

    async def next(self) -> str | None:
        """The next line, or None at the end; a last line without an end counts."""
        while b"\n" not in self._read:
            await self._readable()
            data = os.read(self._source, READ_BYTES)
            if not data:
                rest, self._read = self._read, b""
                return _text(rest) if rest else None
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return _text(line)

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._source, ready.set)
        except PermissionError:
            # A regular file, which can always be read and which the system refuses to watch.
            return
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._source)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").removesuffix("\r")
