"""One invocation of an RLM: what it may use, when it ends, and how it is stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar

from pydantic import JsonValue

from services.common.errors import FleetError
from services.common.ids import new_id
from services.rlm.budget.gate import Asked, BudgetGate, Dimension, Reservation, granted
from services.rlm.events import BudgetExhausted, BudgetUpdated, EventSink, RlmEvent
from services.rlm.invocation.finalization import Finalization
from services.rlm.invocation.hooks import CancelHooks
from services.rlm.invocation.steps import Steps
from services.rlm.models.usage import ModelUse, UsageMeter

AsyncToolHandler = Callable[..., Awaitable[JsonValue]]
"""A host tool: called with keyword arguments on the server's event loop, cancelled when its step is interrupted."""

_current: ContextVar[InvocationScope | None] = ContextVar("rlm_scope", default=None)

_OVER = "This Turn is over; nothing of it can act any more."

_ADVICE: Mapping[Dimension, str] = {
    Dimension.LLM_CALLS: "Use Python on what you have, or call SUBMIT.",
    Dimension.TOOL_CALLS: "Call SUBMIT with what you have.",
    Dimension.CHILD_CALLS: "Work without more children.",
}


class InvocationScope:
    """One Turn or one child: events, budget, tools, clock, usage and cancellation. Safe from any thread.

    Attributes:
        id: tells the sandbox this invocation from the others that it serves.
        sink: takes the events.
        tools: handlers by tool name.
        finalization: when work ends.
        steps: the steps so far; `iteration` is the current one's number.
        loop: the event loop that tool handlers run on.
    """

    def __init__(
        self,
        *,
        sink: EventSink,
        gate: BudgetGate,
        tools: Mapping[str, AsyncToolHandler],
        deadline: float,
        work_deadline: float,
        recursion: bool,
        max_iters: int,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Open the scope.

        Args:
            sink: takes the events.
            gate: grants the budget.
            tools: handlers by tool name.
            deadline: when the invocation ends at the latest, `time.monotonic()` seconds.
            work_deadline: when new work ends; what remains is the wrap-up time.
            recursion: whether children may be started.
            max_iters: how many steps there may be.
            loop: the event loop that tool handlers run on; the running one by default.
        """
        self.id = new_id()
        self.sink = sink
        self.tools = dict(tools)
        self.loop = loop or asyncio.get_running_loop()
        self.finalization = Finalization(deadline=deadline, work_deadline=work_deadline, recursion=recursion)
        self.steps = Steps(self.emit, max_iters, self._ask_step)
        self._gate = gate
        self._step: Asked | None = None
        self._meter = UsageMeter()
        self._lock = threading.Lock()
        self._ended = False
        self._failure: FleetError | None = None
        self._hooks = CancelHooks()
        self._announced: set[Dimension] = set()

    @property
    def iteration(self) -> int:
        """The current step's number; 0 before the first."""
        return self.steps.iteration

    @property
    def deadline(self) -> float:
        """When the invocation ends at the latest, `time.monotonic()` seconds."""
        return self.finalization.deadline

    @property
    def ended(self) -> bool:
        """Whether the invocation is over, so that nothing of it may act any more."""
        return self._ended

    @property
    def cancelled(self) -> bool:
        """Whether the invocation was stopped from outside or ran out of time."""
        return self._failure is not None

    def failure(self) -> FleetError:
        """Why the invocation was stopped; that it is over when it was not."""
        return self._failure or FleetError("TURN_CANCELLED", _OVER)

    def emit(self, event: RlmEvent) -> None:
        """Pass `event` on, unless the invocation is over."""
        if not self._ended:
            self.sink.emit(event)

    def cancel(self, failure: FleetError | None = None) -> None:
        """Stop the invocation: every wait ends at once and raises `failure` (TURN_CANCELLED by default).

        The first call counts. Callbacks run in the caller's thread.
        """
        with self._lock:
            if self._failure is not None or self._ended:
                return
            self._failure = failure or FleetError("TURN_CANCELLED", "The Turn was cancelled.")
        self._hooks.fire()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Have `callback` called once on cancellation, at once if it has happened; returns a function that undoes it.

        The callback must be quick and must not raise.
        """
        return self._hooks.add(callback)

    def end(self) -> None:
        """Close the invocation: no events, tools or budget from here."""
        with self._lock:
            self._ended = True
        self._hooks.clear()
        if self._step is not None:
            self._step.cancel()

    def check(self) -> None:
        """Raise when the invocation was stopped or is over.

        Raises:
            FleetError: why it was stopped, or TURN_CANCELLED when it is over.
        """
        if self._failure is not None:
            raise self._failure
        if self._ended:
            raise self.failure()

    def reserve(self, dimension: Dimension, amount: int) -> Reservation:
        """Ask the gate for `amount` units, telling about the budget and finalizing when it is spent.

        Raises:
            FleetError: BUDGET_EXHAUSTED with a message for the model, or why the invocation can't go on.
        """
        self.check()
        return self._granted(dimension, amount, lambda: self._gate.reserve(dimension, amount))

    def reserve_step(self) -> Reservation:
        """Take the iteration that the current step was asked for at its beginning; it counts once a step.

        The books answer while the model thinks, so that the step itself needn't wait for them.

        Raises:
            FleetError: see `reserve`.
        """
        self.check()
        asked, self._step = self._step, None
        return self._granted(Dimension.ITERATIONS, 1, lambda: granted(asked or self._gate.ask(Dimension.ITERATIONS, 1)))

    def _ask_step(self) -> None:
        if not self.cancelled and not self._ended:
            self._step = self._gate.ask(Dimension.ITERATIONS, 1)

    def _granted(self, dimension: Dimension, amount: int, grant: Callable[[], Reservation]) -> Reservation:
        try:
            reservation = grant()
        except FleetError as error:
            if error.reason != "BUDGET_EXHAUSTED":
                raise
            raise self._refused(dimension, amount, error) from error
        if reservation.limit:
            self.noted(dimension, reservation.used, reservation.limit)
        return reservation

    def refund(self, reservation: Reservation, amount: int) -> None:
        """Give `amount` units of `reservation` back."""
        self._gate.refund(reservation, amount)

    def noted(self, dimension: Dimension, used: int, limit: int) -> None:
        """Tell about the state of a dimension that was spent from."""
        self.emit(BudgetUpdated(dimension, used, limit))

    def exhausted(self, dimension: Dimension) -> bool:
        """Note that `dimension` ran out, tell it once, and return whether that finalizes the invocation."""
        finalizes = self.finalization.spent(dimension, self.iteration)
        with self._lock:
            told = dimension in self._announced
            self._announced.add(dimension)
        if not told:
            self.emit(BudgetExhausted(dimension, finalizes))
        return finalizes

    def record_use(self, use: ModelUse) -> None:
        """Add a model call's usage; counted also when the invocation fails."""
        self._meter.add(use)

    def usage(self) -> list[ModelUse]:
        """Return what the model calls have used so far."""
        return self._meter.uses()

    def _refused(self, dimension: Dimension, amount: int, error: FleetError) -> FleetError:
        used, limit = int(error.metadata.get("used", 0)), int(error.metadata.get("limit", 0))
        left = max(0, limit - used)
        if left:
            message = f"The budget of {dimension} has {left} of {limit} left and this call asks for {amount}."
            return FleetError(error.reason, f"{message} Ask for at most {left}.", error.metadata)
        advice = _ADVICE.get(dimension, "Call SUBMIT with what you have.")
        if self.exhausted(dimension):
            advice = "No new work starts. Call SUBMIT with what you have in the next step."
        return FleetError(
            error.reason, f"The budget of {dimension} is spent ({used} of {limit}). {advice}", error.metadata
        )


def current_scope() -> InvocationScope | None:
    """Return the invocation that the calling code works for; threads must carry the context to see it."""
    return _current.get()


def enter_scope(scope: InvocationScope) -> None:
    """Make `scope` the calling context's invocation."""
    _current.set(scope)
