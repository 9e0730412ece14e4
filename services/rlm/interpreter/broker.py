"""The DSPy code interpreter whose Python runs in a broker's sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput
from fleet.sandbox.v1 import attach_pb2

from services.common.errors import FleetError
from services.rlm.budget.gate import Dimension
from services.rlm.contract.outputs import OutputContract
from services.rlm.events import OutputDelta, Warned
from services.rlm.interpreter.attach_stream import AttachStub
from services.rlm.interpreter.connection import SandboxConnection
from services.rlm.interpreter.dispatcher import Invocation
from services.rlm.interpreter.execution import Execution
from services.rlm.interpreter.observation import STATE_LOST
from services.rlm.interpreter.output_pump import OutputPump
from services.rlm.interpreter.step_outcome import StepOutcome, interrupted, outcome_of
from services.rlm.interpreter.tool_specs import output_fields, tool_specs
from services.rlm.interpreter.values import Encoded, ValueCache, ValueNotJsonError
from services.rlm.invocation.finalization import LoopEnded
from services.rlm.invocation.scope import InvocationScope

_SET_UP_PREFIX = "_raw_"
_VALUES_GONE = "VariableError"
_CODE_BYTES = 4 << 20


@dataclass(frozen=True)
class InterpreterLimits:
    """Limits of each step.

    Attributes:
        execution_timeout_seconds: sandbox time of one step; it pauses while the code waits for host tools.
        max_output_chars: characters of a step's output that the model sees.
        step_output_bytes: bytes of a step's output that cross at most.
    """

    execution_timeout_seconds: float
    max_output_chars: int
    step_output_bytes: int

    @property
    def kept_bytes(self) -> int:
        """Bytes of output that a step brings back: enough for the model's view in any script."""
        return min(self.step_output_bytes, 4 * self.max_output_chars)


@dataclass
class _Binding:
    invocation: Invocation
    contract: OutputContract | None
    set_ups: list[tuple[str, dict[str, Encoded]]] = field(default_factory=list)
    stepping: bool = False

    @property
    def scope(self) -> InvocationScope:
        return self.invocation.scope


class BrokerInterpreter:
    """A `dspy` CodeInterpreter over the broker's Attach stream, owned by its caller.

    `execute` is called from one worker thread at a time; the stream lives on the server's event loop. It serves one
    invocation after the other: `bind` before, `unbind` after each.
    """

    def __init__(
        self,
        stub: AttachStub,
        lease_name: str,
        epoch: int,
        loop: asyncio.AbstractEventLoop,
        limits: InterpreterLimits,
    ) -> None:
        """Prepare for a READY lease; nothing is sent before the first invocation.

        Args:
            stub: the broker's stub.
            lease_name: `leases/{id}`.
            epoch: the lease's epoch.
            loop: the event loop that the stub's channel belongs to.
            limits: limits of each step.
        """
        self._limits = limits
        self._connection = SandboxConnection(stub, lease_name, epoch, loop)
        self._tools: dict[str, Callable[..., Any]] = {}
        self.output_fields: list[dict[str, str]] = []
        # DSPy resets this flag whenever it has given other tools or outputs.
        self._tools_registered = False
        self._values = ValueCache()
        self._binding: _Binding | None = None
        self._running: Execution | None = None
        self._state_lost = False

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """The functions that sandbox code may call; DSPy puts each invocation's own in."""
        return self._tools

    def bind(
        self,
        scope: InvocationScope,
        *,
        contract: OutputContract | None = None,
        uncounted: Collection[str] = (),
    ) -> None:
        """Serve `scope` from here.

        Args:
            scope: the invocation.
            contract: what SUBMIT's values must be; unchecked when None.
            uncounted: tools whose calls are not counted as tool calls.
        """
        self._tools_registered = False
        self._state_lost = False
        self._binding = _Binding(Invocation(scope, self._tools, frozenset(uncounted)), contract)

    def unbind(self) -> None:
        """Serve nobody and hold nothing: tool calls that the sandbox still makes are refused."""
        self._binding = None
        self._tools.clear()
        self._values.clear()
        self._connection.dispatcher.end_invocation()

    def start(self) -> None:
        """Attach when that has not happened yet, and tell the sandbox of the current tools and outputs."""
        if not self._tools_registered:
            self._connection.open(tool_specs(self._tools), output_fields(self.output_fields))
            self._tools_registered = True

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Run `code` and return what the model is to see, or a FinalOutput.

        Raises:
            SyntaxError: the code is not Python.
            CodeExecutionError: the code failed, was stopped at its time limit, or submitted what breaks the contract.
            CodeInterpreterError: the sandbox or its channel is gone.
            LoopEnded: the loop is over and the answer is to be extracted.
            FleetError: the invocation was stopped.
        """
        binding = self._binding
        if binding is None:
            raise CodeInterpreterError("The interpreter serves no Turn.")
        binding.scope.check()
        if len(code.encode("utf-8", "surrogatepass")) > _CODE_BYTES:
            raise CodeExecutionError(f"The code is longer than {_CODE_BYTES:,} bytes.")
        self.start()
        values = self._encode(variables or {})
        if not binding.stepping and values and all(name.startswith(_SET_UP_PREFIX) for name in values):
            binding.set_ups.append((code, values))
            return self._set_up(binding, code, values)
        return self._step(binding, code, values)

    def interrupt(self) -> None:
        """Interrupt the running step, whose output is still taken; any thread."""
        running, binding = self._running, self._binding
        if running is not None and binding is not None:
            running.interrupt(binding.scope.finalization.extract_by)

    def shutdown(self) -> None:
        """Do nothing: the lease and the stream belong to the caller, who ends the stream with `aclose`."""

    async def aclose(self) -> None:
        """End the stream; the lease and its sandbox stay."""
        self.unbind()
        await self._connection.aclose()

    def _encode(self, values: Mapping[str, Any]) -> dict[str, Encoded]:
        try:
            return {name: self._values.encode(value) for name, value in values.items()}
        except ValueNotJsonError as error:
            raise CodeInterpreterError(f"An input can't be sent to the sandbox: it is {error}") from error

    def _set_up(self, binding: _Binding, code: str, values: dict[str, Encoded]) -> str:
        """Run a capsule's own code, which is no step."""
        done = self._await(binding, code, values, None)
        if done is not None and done.state_lost:
            # The worker had died before, between two invocations say: everything set up so far went with it.
            self._note_state(binding.scope, done)
            self._replay(binding)
            return ""
        return _set_up_output(done)

    def _step(self, binding: _Binding, code: str, values: dict[str, Encoded]) -> Any:
        scope = binding.scope
        binding.stepping = True
        if scope.finalization.by_clock:
            raise LoopEnded
        self._replay(binding)
        scope.steps.running(code)
        self._spend_iteration(scope)
        pump = OutputPump(self._connection.loop, _deltas(scope))
        done = self._await(binding, code, values, pump)
        if done is None:
            outcome = interrupted()
        else:
            self._note_state(scope, done)
            outcome = outcome_of(done, self._limits.max_output_chars, binding.contract)
            self._spend_output(scope, done)
        return self._conclude(scope, code, outcome)

    def _conclude(self, scope: InvocationScope, code: str, outcome: StepOutcome) -> Any:
        final = outcome.outputs is not None
        if not final and scope.iteration >= scope.steps.of:
            scope.exhausted(Dimension.ITERATIONS)
        notice = "" if final else scope.finalization.notice(scope.iteration)
        observed = outcome.with_notice(notice, self._limits.max_output_chars)
        scope.emit(observed.event(scope.iteration))
        scope.steps.complete(code, observed.recorded)
        if final:
            return FinalOutput(outcome.outputs)
        if scope.finalization.over(scope.iteration):
            raise LoopEnded
        if outcome.syntax:
            raise SyntaxError(observed.text)
        if outcome.error:
            raise CodeExecutionError(observed.text)
        return observed.text

    def _replay(self, binding: _Binding) -> None:
        """Set the capsules again after the worker was replaced: native RLM sets them only once."""
        if self._state_lost:
            self._state_lost = False
            for code, values in binding.set_ups:
                _set_up_output(self._await(binding, code, values, None))

    def _await(
        self, binding: _Binding, code: str, values: dict[str, Encoded], pump: OutputPump | None
    ) -> attach_pb2.Done | None:
        done = self._attempt(binding, code, values, pump)
        if done is not None and done.error.type == _VALUES_GONE and not done.error.traceback:
            # The sandbox had to make room and nothing ran.
            self._connection.send_values_again()
            done = self._attempt(binding, code, values, pump)
        return done

    def _attempt(
        self, binding: _Binding, code: str, values: dict[str, Encoded], pump: OutputPump | None
    ) -> attach_pb2.Done | None:
        scope = binding.scope
        execution = self._connection.run(
            code,
            values,
            invocation=binding.invocation,
            pump=pump,
            timeout_ms=round(self._limits.execution_timeout_seconds * 1000),
            max_output_bytes=self._limits.kept_bytes,
        )
        self._running = execution
        undo = scope.on_cancel(lambda: execution.abandon(scope.failure()))
        done = None
        try:
            if scope.finalization.by_clock:
                self.interrupt()
            done = execution.wait()
        finally:
            undo()
            self._running = None
            self._connection.forget(execution, ended=done is not None)
        return done

    def _note_state(self, scope: InvocationScope, done: attach_pb2.Done) -> None:
        if done.state_lost:
            self._state_lost = True
            scope.emit(Warned("state_lost", STATE_LOST))

    def _spend_iteration(self, scope: InvocationScope) -> None:
        try:
            reservation = scope.reserve_step()
        except FleetError as error:
            if error.reason != "BUDGET_EXHAUSTED":
                raise
            scope.exhausted(Dimension.ITERATIONS)
            raise LoopEnded from error
        if reservation.limit and reservation.used >= reservation.limit:
            scope.steps.of = scope.iteration

    def _spend_output(self, scope: InvocationScope, done: attach_pb2.Done) -> None:
        amount = min(done.output_bytes, self._limits.kept_bytes)
        if amount and not _granted(scope, amount):
            # What was printed was printed: the rest of the budget goes, and with it the work.
            scope.exhausted(Dimension.OUTPUT_BYTES)


def _set_up_output(done: attach_pb2.Done | None) -> str:
    if done is None or done.status != attach_pb2.EXECUTION_STATUS_OK:
        # Not an error that the model could mend, and native RLM would not show it.
        raise CodeInterpreterError("An input could not be set up in the sandbox.")
    return done.output


def _granted(scope: InvocationScope, amount: int) -> bool:
    """Spend `amount` output bytes, or what is left of them."""
    wanted = amount
    while amount > 0:
        try:
            scope.reserve(Dimension.OUTPUT_BYTES, amount)
        except FleetError as error:
            if error.reason != "BUDGET_EXHAUSTED":
                raise
            left = int(error.metadata.get("limit", 0)) - int(error.metadata.get("used", 0))
            amount = min(left, amount - 1)
        else:
            return amount == wanted
    return False


def _deltas(scope: InvocationScope) -> Callable[[Any, str], None]:
    iteration = scope.iteration
    return lambda stream, text: scope.emit(OutputDelta(iteration, stream, text))
