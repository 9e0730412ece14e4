"""A runtime whose invocation a test plays itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from services.rlm.invocation.scope import InvocationScope
from services.session.running.clients.sandbox import LeaseHandle
from tests.fakes.resident_runtime import FakeRuntime

Play = Callable[[Mapping[str, Any], InvocationScope], Awaitable[Any]]


class PlayedRuntime(FakeRuntime):
    """Implements `TurnRuntime`: `play` is the invocation; cancelling the scope ends it like the native one."""

    def __init__(self, play: Play) -> None:
        super().__init__()
        self.play = play

    @property
    def lease(self) -> LeaseHandle:
        return LeaseHandle("leases/1", 1, "/workspace", "none", "")

    async def run(self, inputs: Mapping[str, Any], scope: InvocationScope) -> Any:
        loop = asyncio.get_running_loop()
        work = asyncio.ensure_future(self.play(inputs, scope))
        undo = scope.on_cancel(lambda: loop.call_soon_threadsafe(work.cancel))
        try:
            return await work
        except asyncio.CancelledError:
            scope.check()
            raise
        finally:
            undo()
            work.cancel()
