"""One execution as the supervisor sees it: what it may use, what it printed, how it ended."""

from __future__ import annotations

from .clock import StepClock
from .output import Capture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STREAM_BYTES = 1 << 15
_STREAM_SECONDS = 0.05
_KEPT_RESULTS = 32
_STOP_WORDS = {"timed_out": "The step reached its time limit", "cancelled": "The step was cancelled"}


class OutputStream:
    """Output that waits to be streamed, collected for a moment so that many small prints make few frames.

    Args:
        budget: Bytes streamed at most.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._parts: list[tuple[bool, bytearray]] = []
        self._waiting = 0
        self.due: float | None = None

    def add(self, stderr: bool, data: bytes, now: float) -> None:
        """Append what was printed, as far as the budget reaches."""
        data = data[: self._budget]
        if not data:
            return
        self._budget -= len(data)
        if self._parts and self._parts[-1][0] == stderr:
            self._parts[-1][1].extend(data)
        else:
            self._parts.append((stderr, bytearray(data)))
        self._waiting += len(data)
        if self.due is None:
            self.due = now + _STREAM_SECONDS
        if self._waiting >= _STREAM_BYTES:
            self.due = now

    def take(self) -> list[tuple[bool, bytes]]:
        """Return and forget what waits: pairs of "is standard error" and bytes."""
        parts = [(stderr, bytes(data)) for stderr, data in self._parts]
        self._parts = []
        self._waiting = 0
        self.due = None
        return parts


class Execution:
    """A running execution.

    Args:
        execution_id: The host's id.
        max_output_bytes: Bytes of output kept, and streamed.
        clock: What the step is charged.
        now: Monotonic seconds at the start.
    """

    def __init__(self, execution_id: str, max_output_bytes: int, clock: StepClock, now: float) -> None:
        self.id = execution_id
        self.clock = clock
        self.capture = Capture(max_output_bytes)
        self.stream = OutputStream(max_output_bytes)
        self.started = now
        self.stop_reason = ""
        self.kill_at: float | None = None

    def printed(self, stderr: bool, data: bytes, now: float) -> None:
        """Take what the worker printed."""
        self.capture.add(data)
        self.stream.add(stderr, data, now)

    def done(
        self,
        status: str,
        now: float,
        *,
        error: dict[str, Any] | None = None,
        result_repr: bytes = b"",
        final: bytes = b"",
        state_lost: bool = False,
    ) -> tuple[dict[str, Any], bytes]:
        """Return control part and body of the `done` frame; the body is output, repr and final, in this order."""
        output = self.capture.text()
        shown = b"" if self.capture.total else result_repr
        control = {
            "execution_id": self.id,
            "status": status,
            "output_length": len(output),
            "output_bytes": self.capture.total,
            "truncated": self.capture.truncated,
            "repr_length": len(shown),
            "final_length": len(final),
            "error": error,
            "state_lost": state_lost,
            "duration_us": int((now - self.started) * 1e6),
            "host_wait_us": int(self.clock.host_wait * 1e6),
        }
        return control, output + shown + final


class Results:
    """The latest results, so that a request that is repeated is answered without running anything."""

    def __init__(self) -> None:
        self._results: dict[str, tuple[dict[str, Any], bytes]] = {}

    def get(self, execution_id: str) -> tuple[dict[str, Any], bytes] | None:
        """Return the `done` of an execution."""
        return self._results.get(execution_id)

    def keep(self, execution_id: str, result: tuple[dict[str, Any], bytes]) -> None:
        """Remember the `done` of an execution, and forget the oldest."""
        self._results[execution_id] = result
        while len(self._results) > _KEPT_RESULTS:
            del self._results[next(iter(self._results))]


def failure(type_: str, message: str) -> dict[str, Any]:
    """Return the description of an error that isn't an exception of the code."""
    return {"type": type_, "message": message, "line": 0, "traceback": ""}


def stopped(status: str, *, kept: bool) -> str:
    """Say what became of a step that was stopped.

    Args:
        status: "timed_out" or "cancelled".
        kept: Whether it reacted to the interrupt, so that the worker lives on.
    """
    what = _STOP_WORDS[status]
    if kept:
        return f"{what} and was interrupted; variables, imports and functions are kept."
    return (
        f"{what} and did not react to the interrupt, so Python was restarted: variables, imports, functions are gone."
    )


def died(how: str, when: str) -> dict[str, Any]:
    """Return the description of the worker's end."""
    return failure(
        "InterpreterDied",
        f"The Python process {how}, {when}. Python was restarted: variables, imports, functions are gone.",
    )
