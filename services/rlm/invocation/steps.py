"""The steps of one invocation: their numbers, their events and the record that extraction reads."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from services.common.text import clean
from services.rlm.events import Code, IterationCompleted, IterationStarted, Reasoning, RlmEvent

UNREAD_CODE = "[Error] The code block could not be read as Python."
"""What is recorded for an action whose code never reached the interpreter."""


@dataclass(frozen=True)
class StepRecord:
    """One finished step as the model saw it."""

    reasoning: str
    code: str
    output: str


class Steps:
    """Counts steps and tells about them.

    A step is begun when the model is about to be asked for an action (by the callbacks) or, without callbacks, when
    its code is about to run (by the interpreter); it is completed when the interpreter has its output.
    """

    def __init__(self, emit: Callable[[RlmEvent], None], of: int, begun: Callable[[], None] = lambda: None) -> None:
        """Begin before the first step.

        Args:
            emit: takes the events.
            of: how many steps there may be.
            begun: called when a step begins, before the model is asked for its action; must not block or raise.
        """
        self._emit = emit
        self._begun = begun
        self.of = of
        self.iteration = 0
        self.records: list[StepRecord] = []
        self._open = False
        self._reasoning = ""
        self._proposed: str | None = None
        self._began = 0.0
        self._lock = threading.Lock()

    def begin(self) -> int:
        """Begin the next step and return its number; a step that is still waiting for its action stays the current one.

        A current step that got an action whose code never ran is completed first.
        """
        if self._open and self._proposed is None:
            return self.iteration
        if self._open:
            self.complete(self._proposed or "", UNREAD_CODE, ran=False)
        with self._lock:
            self.iteration += 1
            self._open = True
            self._began = time.monotonic()
        self._begun()
        self._emit(IterationStarted(self.iteration, self.of))
        return self.iteration

    def reasoned(self, text: str, code: str = "") -> None:
        """Note the current step's reasoning and proposed code: called by the callbacks when the action has arrived."""
        self._reasoning = text
        self._proposed = code
        self._emit(Reasoning(self.iteration, clean(text)))

    def running(self, code: str) -> int:
        """Note that `code` is about to run as the current step, beginning one if need be; return the step's number."""
        if not self._open:
            self.begin()
        self._emit(Code(self.iteration, clean(code)))
        return self.iteration

    def complete(self, code: str, output: str, *, ran: bool = True) -> None:
        """Record the current step's code and the output that the model sees."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            self.records.append(StepRecord(self._reasoning, code, output))
            self._reasoning, self._proposed = "", None
            duration_ms = round((time.monotonic() - self._began) * 1000)
        digest = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest() if ran else ""
        self._emit(IterationCompleted(self.iteration, duration_ms, digest))
