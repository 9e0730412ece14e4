"""The host calls of the running step, and which calls are refused before they reach the host."""

from __future__ import annotations

from .answers import WorkerCall, is_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_OPEN = 128


class HostCalls:
    """Pairs the host's call ids with the worker's.

    Attributes:
        invocation: The invocation that the running step belongs to, or the latest one's between steps.
    """

    def __init__(self) -> None:
        self.invocation: str | None = None
        self._tools: frozenset[str] = frozenset()
        self._open: dict[str, str] = {}
        self._last = 0

    def allow(self, tools: Iterable[str]) -> None:
        """Take these for all the host tools there are."""
        self._tools = frozenset(tools)

    def refusal(self, call: WorkerCall, *, running: bool, full: bool) -> str:
        """Say why a call does not reach the host; empty when it may.

        Args:
            call: What the worker sent.
            running: Whether a step runs.
            full: Whether the host leaves too much unread.
        """
        if not running:
            return "host tools can be called only while a step runs"
        if call.invocation != self.invocation:
            return (
                "this thread was not started by the running Turn: host tools can't be called "
                "from threads that an earlier one left running"
            )
        if call.name not in self._tools:
            return "there is no such host tool"
        if len(self._open) >= _MAX_OPEN or full:
            return f"more than {_MAX_OPEN} host calls at the same time"
        return "" if is_object(call.arguments) else "the arguments are not a JSON object"

    def opened(self, call: WorkerCall, epoch: int) -> str:
        """Return the host's id of a call, unique within the epoch."""
        self._last += 1
        call_id = f"{epoch}-{self._last}"
        self._open[call_id] = call.id
        return call_id

    def closed(self, call_id: str) -> str | None:
        """Return the worker's id of a call that got its result, or None when nobody waits for it."""
        return self._open.pop(call_id, None)

    def end(self) -> list[str]:
        """The step ended: return the worker's ids of the calls that still wait, and forget them."""
        waiting = list(self._open.values())
        self._open.clear()
        return waiting
