"""One piece of code that runs in the sandbox, and everything that can end the wait for it."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass

from fleet.sandbox.v1 import attach_pb2

from services.rlm.interpreter.output_pump import OutputPump
from services.rlm.invocation.hooks import CancelHooks


@dataclass(frozen=True)
class _Limit:
    wait_until: float


class Execution:
    """A running execution; the worker thread waits for it, any other thread may end the wait."""

    def __init__(
        self, execution_id: str, hooks: CancelHooks, cancel: Callable[[str], None], pump: OutputPump | None
    ) -> None:
        """Begin to wait.

        Args:
            execution_id: its id.
            hooks: call off the host calls of its code.
            cancel: asks the sandbox to interrupt the code.
            pump: takes what the code prints while it runs.
        """
        self.id = execution_id
        self.pump = pump
        self._hooks = hooks
        self._cancel = cancel
        self._outcomes: queue.SimpleQueue[attach_pb2.Done | BaseException | _Limit] = queue.SimpleQueue()

    def finish(self, done: attach_pb2.Done) -> None:
        """Give the wait its result."""
        self._outcomes.put(done)

    def fail(self, error: BaseException) -> None:
        """End the wait with `error`."""
        self._hooks.fire()
        self._outcomes.put(error)

    def abandon(self, error: BaseException) -> None:
        """End the wait with `error` at once and have the code interrupted; what it still gives is dropped."""
        self._outcomes.put(error)
        self._hooks.fire()
        self._cancel(self.id)

    def interrupt(self, wait_until: float) -> None:
        """Have the code interrupted and wait for its output until `wait_until`, `time.monotonic()` seconds."""
        self._hooks.fire()
        self._cancel(self.id)
        self.limit(wait_until)

    def limit(self, wait_until: float) -> None:
        """Wait until `wait_until` at the latest, `time.monotonic()` seconds."""
        self._outcomes.put(_Limit(wait_until))

    def wait(self) -> attach_pb2.Done | None:
        """Block until the code has ended; None when it did not end within its limit.

        Raises:
            BaseException: what `fail` or `abandon` was given.
        """
        timeout: float | None = None
        while True:
            try:
                outcome = self._outcomes.get(timeout=timeout)
            except queue.Empty:
                return None
            if isinstance(outcome, BaseException):
                raise outcome
            if isinstance(outcome, attach_pb2.Done):
                return outcome
            timeout = max(0.0, outcome.wait_until - time.monotonic())
