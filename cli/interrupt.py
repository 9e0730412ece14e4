"""Ctrl-C during a Turn: the first cancels the Turn, whose end is still shown; the second leaves at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

CANCEL_SECONDS = 2.0
"""How long a request to cancel that is under way is waited for at the end."""


class Interrupts:
    """Takes Ctrl-C for the current task; use it as an async context manager.

    Args:
        cancel: asks for the Turn's end; None is returned when there is nothing to cancel yet, and the task ends.
    """

    def __init__(self, cancel: Callable[[], Awaitable[None] | None]) -> None:
        self._cancel = cancel
        self._asking: asyncio.Future[None] | None = None
        self._left = False

    async def __aenter__(self) -> Self:
        """Take the signal."""
        self._task = asyncio.current_task()
        self._before = signal.getsignal(signal.SIGINT)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._on_interrupt)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signal back; a task that was left by Ctrl-C ends as any program that is interrupted."""
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, self._before)
        if self._asking is not None:
            await asyncio.wait({self._asking}, timeout=CANCEL_SECONDS)
            self._asking.cancel()
        if self._left and kind is asyncio.CancelledError:
            raise KeyboardInterrupt from error

    def _on_interrupt(self) -> None:
        asking = None if self._asking is not None else self._cancel()
        if asking is not None:
            self._asking = asyncio.ensure_future(asking)
        elif self._task is not None:
            self._left = True
            self._task.cancel()
