"""Counts the calls that are running, so that a server can wait for the last handler to end."""

from __future__ import annotations

import asyncio
from typing import Any

from services.common.interceptors.chain import Behaviour, Context, Method


class RunningLayer:
    """Knows whether any handler is running; gRPC's own stop returns before cancelled handlers have ended."""

    def __init__(self) -> None:
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def wrap(self, behaviour: Behaviour, method: Method) -> Behaviour:
        """A behaviour that is counted while it runs."""

        async def call(request: Any, context: Context) -> Any:
            self._running += 1
            self._idle.clear()
            try:
                return await behaviour(request, context)
            finally:
                self._running -= 1
                if self._running == 0:
                    self._idle.set()

        return call

    async def wait_idle(self, seconds: float) -> bool:
        """Return True when no handler runs, or False after `seconds` when one still does."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
