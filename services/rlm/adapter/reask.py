"""Decides whether a model is asked again: at most twice, within the time left, and never for what can't pass."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from services.rlm.invocation.scope import InvocationScope
from services.rlm.models.model_errors import ASK_AGAIN, ModelErrorKind, called_off, read_model_error

MAX_REASKS = 2
"""Requests after the first one."""

_PAUSES = (0.5, 1.0)


@dataclass
class Reasks:
    """The state of one question to a model.

    Attributes:
        scope: the invocation, whose end also ends the asking; None outside one.
        attempt: 0 for the first request, then the number of the re-ask.
        feedback: what the model is told about its last reply; empty when that said nothing.
    """

    scope: InvocationScope | None
    attempt: int = 0
    feedback: str = ""
    _first: Exception | None = field(default=None, repr=False)

    def purpose(self, first: str) -> str:
        """Return what the next request is for, in the words of events."""
        return first if self.attempt == 0 else f"re-ask {self.attempt}"

    def after(self, error: Exception, feedback: str) -> float:
        """Return how many seconds to wait before asking again.

        Args:
            error: why the request failed.
            feedback: what to tell the model when its reply was the reason.

        Raises:
            FleetError: the invocation was stopped.
            Exception: the first failure when there were too many, or `error` when asking again can't help.
        """
        if self.scope is not None:
            self.scope.check()
        failure = read_model_error(error)
        if failure is None or called_off(error) or failure.kind not in (*ASK_AGAIN, ModelErrorKind.UNREADABLE):
            raise error
        unreadable = failure.kind is ModelErrorKind.UNREADABLE
        self._first = self._first or error
        if self.attempt >= MAX_REASKS:
            raise self._first
        pause = 0.0 if unreadable else _PAUSES[self.attempt]
        if failure.retry_after is not None:
            pause = failure.retry_after
        if pause >= self.time_left():
            raise error
        self.attempt += 1
        self.feedback = feedback if unreadable else ""
        return pause

    def time_left(self) -> float:
        """Return how many seconds the invocation has left; infinite outside one."""
        return float("inf") if self.scope is None else self.scope.deadline - time.monotonic()
