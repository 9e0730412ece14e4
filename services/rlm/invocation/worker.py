"""A thread with an event loop of its own, for code that would block the server's."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WorkerTask(Generic[T]):
    """A coroutine on its way in a worker.

    Attributes:
        done: its result, for the loop that asked for it; a dropped task's result goes nowhere.
    """

    def __init__(self, done: asyncio.Future[T], worker_loop: asyncio.AbstractEventLoop) -> None:
        self.done = done
        self._loop = worker_loop
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Cancel the coroutine where it awaits; what blocks the worker's thread is to be ended by other means."""
        self._cancelled = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def started(self, task: asyncio.Task[T]) -> None:
        """Take note of the running task; worker thread only."""
        self._task = task
        if self._cancelled:
            task.cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class LoopWorker:
    """One daemon thread that runs coroutines one after the other or interleaved on its own event loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._closing = False
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The worker's event loop."""
        return self._loop

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> WorkerTask[T]:
        """Run `work()` in the worker, in a copy of the caller's context; the caller's loop gets the result.

        Raises:
            RuntimeError: the worker was closed.
        """
        if self._closing:
            raise RuntimeError("the worker was closed")
        home = asyncio.get_running_loop()
        handle: WorkerTask[T] = WorkerTask(home.create_future(), self._loop)

        def start() -> None:
            task = self._loop.create_task(work())
            task.add_done_callback(lambda ended: _deliver(ended, home, handle.done))
            handle.started(task)

        self._loop.call_soon_threadsafe(start, context=contextvars.copy_context())
        return handle

    async def close(self, seconds: float = 2.0) -> bool:
        """Cancel everything and end the thread; returns whether it ended in time."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


def _deliver(ended: asyncio.Task[T], home: asyncio.AbstractEventLoop, done: asyncio.Future[T]) -> None:
    def settle() -> None:
        if done.cancelled() or done.done():
            return
        if ended.cancelled():
            done.cancel()
        elif (error := ended.exception()) is not None:
            done.set_exception(error)
        else:
            done.set_result(ended.result())

    if not ended.cancelled():
        ended.exception()
    if not home.is_closed():
        home.call_soon_threadsafe(settle)
