"""Removing the sandboxes of children until they are confirmed gone."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from services.common.errors import FleetError
from services.common.logging import get_logger
from services.recursion.budget.changes import Changes
from services.recursion.children.outcomes import Cleanup, Outcome
from services.recursion.children.ports import Broker
from services.recursion.children.states import Child
from services.recursion.store.children import ChildStore

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0

_log = get_logger(__name__)


class Cleaner:
    """Owns one task a child whose sandbox isn't confirmed gone. All of it belongs to one event loop."""

    def __init__(self, children: ChildStore, changes: Changes) -> None:
        self._children = children
        self._changes = changes
        self._tasks: dict[str, asyncio.Task[bool]] = {}

    def begin(self, broker: Broker, child: Child, outcome: Outcome) -> asyncio.Task[bool]:
        """Start removing a child's sandbox, unless that is going on; returns the task.

        The task ends when the sandbox is confirmed gone and that is written down (True), or when another replica took
        the child over (False).
        """
        known = self._tasks.get(child.id)
        if known is not None:
            return known
        task = asyncio.create_task(self._clean(broker, child, outcome), name=f"clean-up of child {child.id}")
        self._tasks[child.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(child.id, None))
        return task

    async def stop(self, seconds: float) -> None:
        """Give tasks that long, then end them; what is not confirmed stays written down for the next replica."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _clean(self, broker: Broker, child: Child, outcome: Outcome) -> bool:
        pause = _FIRST_PAUSE
        while not await self._removed(broker, child):
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return await self._written(child, replace(outcome, cleanup=Cleanup.CONFIRMED))

    async def _removed(self, broker: Broker, child: Child) -> bool:
        try:
            return await broker.remove(child.id)
        except FleetError as error:
            _log.warning("child clean-up failed", child=child.id, turn=child.turn, reason=error.reason)
            return False

    async def _written(self, child: Child, outcome: Outcome) -> bool:
        try:
            await self._children.cleaned(child, outcome)
        except FleetError as error:
            _log.warning("child was taken over", child=child.id, turn=child.turn, reason=error.reason)
            return False
        finally:
            self._changes.notify(child.turn)
        return True
