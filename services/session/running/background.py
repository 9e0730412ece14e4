"""Background work with an owner: what outlives the call that began it, and ends with the part that owns it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from services.common.errors import FleetError
from services.common.logging import get_logger

T = TypeVar("T")

_log = get_logger(__name__)


class BackgroundTasks:
    """A set of asyncio tasks that belong to one part.

    Failures are logged when a task ends; nobody has to wait for one. `close` ends them all.
    """

    def __init__(self, owner: str) -> None:
        """Begin with no tasks.

        Args:
            owner: the part's name, for logs and task names.
        """
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """How many tasks are running."""
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start `work` as a task of this owner.

        Args:
            work: what to do.
            name: a few words for logs.
        """
        task = asyncio.create_task(work, name=f"{self._owner}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def join(self, seconds: float) -> bool:
        """Wait up to `seconds` for the running tasks.

        Returns:
            Whether all of them have ended.
        """
        if not self._tasks:
            return True
        _, pending = await asyncio.wait(set(self._tasks), timeout=seconds)
        return not pending

    async def close(self) -> None:
        """Cancel what is still running and wait for its end."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, FleetError):
            _log.info("background task refused", task=task.get_name(), reason=error.reason, message=error.message)
        elif error is not None:
            _log.warning("background task failed", task=task.get_name(), exc_info=error)
