"""One native `dspy.RLM` in a worker thread, serving one invocation after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pydantic import JsonValue

from services.common.errors import FleetError
from services.rlm.budget.gate import Dimension
from services.rlm.failures import to_fleet_error
from services.rlm.invocation.clock_watch import ClockWatch
from services.rlm.invocation.finalization import LoopEnded
from services.rlm.invocation.scope import InvocationScope, enter_scope
from services.rlm.invocation.worker import LoopWorker, WorkerTask
from services.rlm.models.usage import ModelUse
from services.rlm.spec import RlmSpec as RlmSpec
from services.rlm.tools import native_tool

if TYPE_CHECKING:
    import dspy

    from services.rlm.interpreter.broker import BrokerInterpreter
    from services.rlm.models.factory import ModelFactory

_LOG = logging.getLogger(__name__)
_NATIVE_EXTRACT = "Extract forced final output"


@dataclass(frozen=True)
class RlmOutcome:
    """What an invocation gave.

    Attributes:
        outputs: the typed outputs as JSON, checked against the contract.
        termination: whether the model submitted or the answer was extracted.
        iterations: steps made.
        usage: one entry a role and model.
    """

    outputs: dict[str, JsonValue]
    termination: Literal["submit", "extract"]
    iterations: int
    usage: list[ModelUse]


class NativeRlm:
    """Owns the RLM and its thread; the interpreter and its lease belong to the caller.

    Only one invocation runs at a time. After one that failed or was cancelled the object is to be closed.
    """

    def __init__(self, spec: RlmSpec, interpreter: BrokerInterpreter, models: ModelFactory) -> None:
        """Prepare; the RLM is built in the worker when it is first needed.

        Args:
            spec: what the RLM is made from.
            interpreter: where its code runs.
            models: gives the models of each invocation.
        """
        self._spec = spec
        self._interpreter = interpreter
        self._models = models
        self._contract = spec.contract()
        self._uncounted = frozenset(tool.name for tool in spec.tools if not tool.counted)
        self._worker = LoopWorker(f"rlm-{spec.role}")
        self._rlm: dspy.RLM | None = None
        self._busy = False

    async def run(self, inputs: Mapping[str, Any], scope: InvocationScope) -> RlmOutcome:
        """Run one invocation on the server's loop; the work itself is done in the worker.

        Cancelling the scope, or this call, ends it within a second; a late result is dropped.

        Args:
            inputs: JSON-compatible values and capsules by input name; not to be changed meanwhile.
            scope: the invocation.

        Raises:
            FleetError: why there is no answer.
            RuntimeError: another invocation is running.
        """
        if self._busy:
            raise RuntimeError("an invocation is running")
        self._busy = True
        self._interpreter.bind(scope, contract=self._contract, uncounted=self._uncounted)
        attempt = _Attempt(self._worker.loop)
        task = self._worker.submit(lambda: self._invoke(dict(inputs), scope, attempt))
        try:
            with ClockWatch(scope, lambda: self._end_work(attempt)):
                return await self._result(task, scope)
        finally:
            self._interpreter.unbind()
            self._busy = False

    async def close(self) -> None:
        """End the worker; what still runs in it is cancelled."""
        if not await self._worker.close():
            _LOG.warning("the RLM's worker did not end in time")

    async def _result(self, task: WorkerTask[RlmOutcome], scope: InvocationScope) -> RlmOutcome:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[None] = loop.create_future()
        undo = scope.on_cancel(lambda: loop.call_soon_threadsafe(_set, stopped))
        try:
            waiting: set[asyncio.Future[Any]] = {task.done, stopped}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if scope.cancelled:
                raise scope.failure()
            return task.done.result()
        except asyncio.CancelledError:
            scope.cancel()
            raise
        finally:
            undo()
            task.cancel()
            if not task.done.done():
                task.done.cancel()
            elif not task.done.cancelled():
                task.done.exception()

    def _end_work(self, attempt: _Attempt) -> None:
        self._interpreter.interrupt()
        attempt.cancel()

    async def _invoke(self, inputs: dict[str, Any], scope: InvocationScope, attempt: _Attempt) -> RlmOutcome:
        """Run in the worker.

        Raises:
            FleetError: why there is no answer.
        """
        enter_scope(scope)
        try:
            return await self._answer(inputs, scope, attempt)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise self._failure(error, scope) from error

    async def _answer(self, inputs: dict[str, Any], scope: InvocationScope, attempt: _Attempt) -> RlmOutcome:
        import dspy

        from services.rlm.invocation.callbacks import StepCallback

        rlm = self._built()
        with self._models.open(scope, self._spec.role) as models:
            rlm.sub_lm = models.sub
            try:
                with dspy.context(**models.settings([StepCallback(scope)])):
                    return await self._concluded(rlm, inputs, scope, attempt)
            finally:
                # A resident RLM holds nothing of an invocation that has ended.
                rlm.sub_lm = None

    async def _concluded(
        self, rlm: dspy.RLM, inputs: dict[str, Any], scope: InvocationScope, attempt: _Attempt
    ) -> RlmOutcome:
        from services.rlm.invocation.extraction import Extraction, picked

        termination: Literal["submit", "extract"] = "extract"
        extraction = Extraction(rlm, self._contract, inputs)
        prediction = await self._looped(rlm, inputs, scope, attempt)
        if prediction is None:
            outputs = await extraction.outputs(scope.steps.records)
        elif prediction.final_reasoning == _NATIVE_EXTRACT:
            scope.exhausted(Dimension.ITERATIONS)
            outputs = await extraction.outputs(scope.steps.records, picked(prediction, self._contract))
        else:
            termination = "submit"
            outputs = self._contract.check(picked(prediction, self._contract))
        return RlmOutcome(outputs, termination, scope.iteration, scope.usage())

    async def _looped(
        self, rlm: dspy.RLM, inputs: dict[str, Any], scope: InvocationScope, attempt: _Attempt
    ) -> dspy.Prediction | None:
        """Run the native loop; None when finalization ended it."""
        task = asyncio.ensure_future(rlm.acall(self._interpreter, **inputs))
        attempt.started(task)
        try:
            return await task
        except LoopEnded:
            return None
        except asyncio.CancelledError:
            if scope.cancelled or not scope.finalization.by_clock:
                raise
            return None

    def _built(self) -> dspy.RLM:
        import dspy

        if self._rlm is None:
            self._rlm = dspy.RLM(
                self._spec.signature,
                max_iters=self._spec.max_iters,
                max_llm_calls=self._spec.max_llm_calls,
                max_output_chars=self._spec.max_output_chars,
                tools=[native_tool(tool) for tool in self._spec.tools],
                # DSPy's default describes a sandbox of its own to the model.
                interpreter_factory=_no_interpreter,
            )
        return self._rlm

    def _failure(self, error: Exception, scope: InvocationScope) -> FleetError:
        from dspy.primitives.code_interpreter import CodeInterpreterError

        if scope.cancelled:
            return scope.failure()
        if isinstance(error, CodeInterpreterError):
            # Only this package's interpreter raises it, and in public words.
            return FleetError("INTERPRETER_FAILED", f"The interpreter failed: {error}")
        failure = to_fleet_error(error, self._spec.role)
        if failure.reason == "INTERNAL":
            _LOG.error("the RLM stopped unexpectedly", exc_info=error)
        return failure


def _no_interpreter() -> NoReturn:
    raise RuntimeError("the interpreter is given with every invocation")


class _Attempt:
    """The native loop's task, which the clock may cancel from the server's loop."""

    def __init__(self, worker_loop: asyncio.AbstractEventLoop) -> None:
        self._loop = worker_loop
        self._task: asyncio.Task[Any] | asyncio.Future[Any] | None = None
        self._cancelled = False

    def started(self, task: asyncio.Future[Any]) -> None:
        """Take note of the task; worker thread only."""
        self._task = task
        if self._cancelled:
            task.cancel()

    def cancel(self) -> None:
        """Cancel the loop where it awaits a model; any thread."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
