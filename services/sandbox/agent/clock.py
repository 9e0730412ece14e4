"""The time that a step is charged."""

from __future__ import annotations


class StepClock:
    """Charges wall time, except while host calls are open: then only the processor time that the step burns.

    A thread that waits for the host, or for a thread that does, uses no processor; one that goes on computing does.
    So a step isn't punished for a slow host and can't hide a busy loop behind one.

    Args:
        now: Monotonic seconds.
        cpu: Processor seconds of the worker so far.
        limit: Seconds that the step may be charged; 0 means no limit.
    """

    def __init__(self, now: float, cpu: float, limit: float) -> None:
        self._limit = limit
        self._charged = 0.0
        self.host_wait = 0.0
        self._since = now
        self._cpu = cpu
        self._open_calls = 0

    @property
    def open_calls(self) -> int:
        """Host calls that wait for a result."""
        return self._open_calls

    def advance(self, now: float, cpu: float) -> None:
        """Charge the time since the last call."""
        wall = max(0.0, now - self._since)
        if self._open_calls:
            burned = min(wall, max(0.0, cpu - self._cpu))
            self._charged += burned
            self.host_wait += wall - burned
        else:
            self._charged += wall
        self._since = now
        self._cpu = cpu

    def call_opened(self, now: float, cpu: float) -> None:
        """A host call began."""
        self.advance(now, cpu)
        self._open_calls += 1

    def call_closed(self, now: float, cpu: float) -> None:
        """A host call got its result."""
        self.advance(now, cpu)
        self._open_calls = max(0, self._open_calls - 1)

    def remaining(self) -> float | None:
        """Return the seconds left, or None without a limit."""
        return self._limit - self._charged if self._limit else None
