"""When and how an invocation stops working and gives its answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from services.rlm.budget.gate import Dimension

ACTIONS_AFTER_BUDGET = 2
"""Actions that the model still gets after a dimension ended its work."""

_EXTRACT_SECONDS = 60.0
_ENDS_WORK = frozenset({Dimension.SECONDS, Dimension.ITERATIONS, Dimension.OUTPUT_BYTES, Dimension.TOOL_CALLS})


class LoopEnded(Exception):
    """Leaves the RLM's loop from `execute()` when finalization is over; the answer is then extracted."""


class Finalization:
    """Decides when work ends: by a spent dimension or by the clock. Safe from any thread.

    All moments are seconds of `time.monotonic()`.
    """

    def __init__(
        self, *, deadline: float, work_deadline: float, recursion: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with work going on.

        Args:
            deadline: when the invocation ends at the latest.
            work_deadline: when new work ends; what remains is the wrap-up time.
            recursion: whether children may be started, so that spent model calls alone don't end the work.
            clock: gives the present moment.
        """
        self.deadline = deadline
        self._wrap_up = max(0.0, deadline - work_deadline)
        self._until = work_deadline
        self._recursion = recursion
        self._clock = clock
        self._last_iteration: int | None = None
        self._cause: Dimension | None = None
        self._clock_ended = False
        self._spent: set[Dimension] = set()
        self._lock = threading.Lock()
        self._changed: Callable[[], None] = lambda: None

    @property
    def cause(self) -> Dimension | None:
        """The dimension that ended the work, or None while work goes on."""
        return self._cause

    @property
    def until(self) -> float:
        """The moment at which the clock ends the loop."""
        return self._until

    @property
    def extract_by(self) -> float:
        """The moment by which extraction is started, with or without the last step's output."""
        return self.deadline - min(_EXTRACT_SECONDS, self._wrap_up / 2)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Have `callback` called, from any thread, when `until` was moved."""
        self._changed = callback

    def spent(self, dimension: Dimension, iteration: int) -> bool:
        """Note that `dimension` ran out during step `iteration` and return whether that ends the work."""
        with self._lock:
            self._spent.add(dimension)
            ends = self._ends_work(dimension)
            if not ends or self._cause is not None:
                return ends
            self._cause = dimension
            grace = 0 if dimension is Dimension.ITERATIONS else ACTIONS_AFTER_BUDGET
            self._last_iteration = iteration + grace
            self._until = min(self._until, self._clock() + self._wrap_up / 2)
        self._changed()
        return True

    def end_by_clock(self) -> None:
        """End the loop: no further action is asked for, the one that runs is the last."""
        with self._lock:
            self._cause = self._cause or Dimension.SECONDS
            self._clock_ended = True

    def over(self, iteration: int) -> bool:
        """Return whether the loop ends after step `iteration`."""
        return self._clock_ended or (self._last_iteration is not None and iteration >= self._last_iteration)

    @property
    def by_clock(self) -> bool:
        """Whether the clock has ended the loop."""
        return self._clock_ended

    def notice(self, iteration: int) -> str:
        """Return what the model is told at the end of step `iteration`; empty while work goes on."""
        if self._cause is None or self._last_iteration is None:
            return ""
        left = self._last_iteration - iteration
        if left <= 0:
            return ""
        steps = "1 more step" if left == 1 else f"{left} more steps"
        return f"[budget] {self._cause} is spent: no new work starts. You have {steps}: call SUBMIT with what you have."

    def _ends_work(self, dimension: Dimension) -> bool:
        if dimension in _ENDS_WORK:
            return True
        if not self._recursion:
            return dimension is Dimension.LLM_CALLS
        return {Dimension.LLM_CALLS, Dimension.CHILD_CALLS} <= self._spent
