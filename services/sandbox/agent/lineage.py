"""Which invocation a thread of the worker belongs to: the one whose code started it, directly or through others.

The host names an invocation (a Turn, a child) with every execution. What an earlier one left running must not act as
the next. Who enforces what:

* The client refuses calls of executions of an invocation that is over, whatever the sandbox says.
* The supervisor knows by itself which invocation runs, ends every process that an earlier one left behind before the
  first step of the next, believes nothing on the worker's socket that another process wrote, and refuses calls of
  threads that are not of the running invocation.
* Only the worker can tell its threads apart. It marks each at its start, lets none of an earlier invocation SUBMIT, and
  drops what those print.

A mark is a fact about code as it is, not a barrier against code that lies: all threads share one interpreter's memory,
so code that sets out to can change a mark, or leave a function, a patched module or a signal handler behind that the
next invocation's own thread runs. It gains what the running invocation may do anyway, and never an earlier one's tools
or budget. Bytes written beneath `sys.stdout` and `sys.stderr` (to the descriptors, or by programs that a late thread
starts) carry no mark, and of what a late thread is just printing when the next invocation begins a piece may be taken
for that one's.
"""

from __future__ import annotations

import _thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_STARTERS = ("start_new_thread", "start_new", "start_joinable_thread")


class _Mark(_thread._local):
    invocation: str | None = None


class Lineage:
    """Marks threads; made before `threading` is imported, which keeps the functions that start them."""

    def __init__(self) -> None:
        self._current = ""
        self._mark = _Mark()
        for name in _STARTERS:
            start = getattr(_thread, name, None)
            if start is not None:
                setattr(_thread, name, self._marking(start))

    def enter(self, invocation: str) -> None:
        """The calling thread begins an execution of an invocation; other threads of it are those it starts."""
        self._mark.invocation = self._current = invocation

    @property
    def own(self) -> str | None:
        """The calling thread's invocation, or None for a thread that Python did not start."""
        return self._mark.invocation

    @property
    def late(self) -> bool:
        """Whether the calling thread belongs to an invocation that is over."""
        return self._mark.invocation not in (self._current, None)

    def _marking(self, start: Callable[..., Any]) -> Callable[..., Any]:
        mark = self._mark

        def start_marked(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
            if not callable(function):
                return start(function, *args, **options)
            invocation = mark.invocation

            def run(*given: Any, **named: Any) -> Any:
                mark.invocation = invocation
                return function(*given, **named)

            return start(run, *args, **options)

        return start_marked
