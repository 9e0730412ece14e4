"""The worker thread: results, cancellation, its end."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from services.rlm.invocation.worker import LoopWorker


async def test_work_runs_in_another_thread_with_the_callers_context() -> None:
    marker: contextvars.ContextVar[str] = contextvars.ContextVar("marker")
    marker.set("mine")
    worker = LoopWorker("test")

    async def work() -> tuple[str, str]:
        await asyncio.sleep(0)
        return threading.current_thread().name, marker.get()

    assert await worker.submit(work).done == ("test", "mine")
    assert await worker.close()
    with pytest.raises(RuntimeError, match="closed"):
        worker.submit(work)


async def test_errors_arrive_and_cancellation_reaches_the_coroutine() -> None:
    worker = LoopWorker("test")
    begun, ended = threading.Event(), threading.Event()

    async def fail() -> None:
        raise ValueError("no")

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(ValueError, match="no"):
        await worker.submit(fail).done
    task = worker.submit(wait)
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task.done
    assert ended.is_set()
    await worker.close()


async def test_closing_cancels_what_runs() -> None:
    worker = LoopWorker("test")
    begun, ended = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    worker.submit(wait)
    await asyncio.to_thread(begun.wait, 5)
    assert await worker.close()
    assert ended.is_set()


async def test_a_blocked_worker_is_reported() -> None:
    worker, release = LoopWorker("test"), threading.Event()
    begun = threading.Event()

    async def block() -> None:
        begun.set()
        release.wait(10)

    worker.submit(block)
    await asyncio.to_thread(begun.wait, 5)
    assert not await worker.close(seconds=0.05)
    release.set()
    assert await worker.close()
