"""Ends an invocation's work, and then the invocation, when their time has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from services.common.errors import FleetError
from services.rlm.budget.gate import Dimension
from services.rlm.invocation.scope import InvocationScope


class ClockWatch:
    """Timers of one invocation on the running loop; a context manager."""

    def __init__(self, scope: InvocationScope, end_work: Callable[[], None]) -> None:
        """Watch `scope`.

        Args:
            scope: the invocation.
            end_work: interrupts the running step and the running model call; must not block.
        """
        self._scope = scope
        self._end_work = end_work
        self._loop = asyncio.get_running_loop()
        self._work_timer: asyncio.TimerHandle | None = None
        self._last_timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> ClockWatch:
        self._last_timer = self._loop.call_at(self._scope.deadline, self._time_out)
        self._set_work_timer()
        self._scope.finalization.on_change(self._until_changed)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._scope.finalization.on_change(lambda: None)
        for timer in (self._work_timer, self._last_timer):
            if timer is not None:
                timer.cancel()
        self._last_timer = None

    def _until_changed(self) -> None:
        self._loop.call_soon_threadsafe(self._set_work_timer)

    def _set_work_timer(self) -> None:
        if self._work_timer is not None:
            self._work_timer.cancel()
        if self._last_timer is not None and not self._scope.finalization.by_clock:
            self._work_timer = self._loop.call_at(self._scope.finalization.until, self._work_over)

    def _work_over(self) -> None:
        finalization = self._scope.finalization
        if finalization.cause is None:
            self._scope.exhausted(Dimension.SECONDS)
        finalization.end_by_clock()
        self._end_work()

    def _time_out(self) -> None:
        self._scope.cancel(FleetError("TURN_TIMED_OUT", "The Turn reached its deadline without an answer."))
