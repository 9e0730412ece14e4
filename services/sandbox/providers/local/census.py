"""Finds the processes of a sandbox by their command lines.

Whoever is killed while it starts a sandbox may leave a process that no marker tells of and that waits for ever for its
parent. Every process that bubblewrap or the agent starts as carries the sandbox's name.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from services.sandbox import bundle
from services.sandbox.providers.local.layout import AGENT
from services.sandbox.providers.local.readable import readable

_BEFORE_NAME = (b"--hostname", f"{AGENT}/{bundle.START}".encode())


def find(name: str) -> list[int]:
    """Return the numbers of the running processes of a sandbox; reads the command line of every process."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _belongs(int(entry), name)]


def _belongs(pid: int, name: str) -> bool:
    try:
        # That of a process which has ended and waits to be reaped is empty.
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(before in _BEFORE_NAME and word == name.encode() for before, word in pairwise(words))


async def end(name: str, seconds: float) -> bool:
    """Kill the processes of a sandbox, wait for their end, and return whether all are gone.

    Args:
        name: The sandbox's name.
        seconds: How long to wait at most.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while pids := await asyncio.to_thread(find, name):
                await asyncio.gather(*(_kill(pid, name) for pid in pids))
            return True
    return False


async def _kill(pid: int, name: str) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # The descriptor pins the process, so what is looked at again is what gets the signal.
        if _belongs(pid, name):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            await readable(descriptor)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)
