"""Waiting for a descriptor on the event loop."""

from __future__ import annotations

import asyncio


async def readable(descriptor: int) -> None:
    """Return when a descriptor can be read; that of a process can when it has ended."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(descriptor, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(descriptor)
