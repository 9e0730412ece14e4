"""A scripted Root whose steps a test writes down, found again by a marker in the question."""

from __future__ import annotations

import itertools
import re
import threading
from dataclasses import dataclass, field

from tests.fakes.scripted_llm import Reply, Request, action

Step = Reply | str
"""A reply as it is, or code to be run."""

_MARKER = re.compile(r"(?:PLAN|TASK)-\d{5}")


@dataclass
class Plans:
    """Answers each request with the next step of the plan it belongs to; the last step is repeated.

    Attributes:
        asked: how many requests a plan has had, by marker.
    """

    asked: dict[str, int] = field(default_factory=dict)
    _steps: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def root(self, *steps: Step) -> str:
        """A question whose Turn takes these steps."""
        return self._add("PLAN", steps)

    def child(self, *steps: Step) -> str:
        """A task whose child takes these steps."""
        return self._add("TASK", steps)

    def answer(self, request: Request) -> Step | None:
        """The reply to a request of a plan; None when it belongs to none."""
        markers = _MARKER.findall(request.prompt)
        # A Root's prompt shows earlier questions and the tasks it gave; the latest of its own kind is meant.
        kind = "PLAN" if "session_context" in request.prompt else "TASK"
        mine = max((marker for marker in markers if marker.startswith(kind)), default=None)
        if mine is None:
            return None
        with self._lock:
            number = self.asked[mine]
            self.asked[mine] += 1
        step = self._steps[mine][min(number, len(self._steps[mine]) - 1)]
        return step if isinstance(step, Reply) else action(step)

    def _add(self, kind: str, steps: tuple[Step, ...]) -> str:
        with self._lock:
            marker = f"{kind}-{next(self._numbers):05}"
            self._steps[marker] = steps
            self.asked[marker] = 0
        return marker
