"""The worker thread's side of a sandbox: code in, outcomes out, tool calls answered on the way."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Mapping, Sequence

from dspy.primitives.code_interpreter import CodeInterpreterError
from fleet.sandbox.v1 import attach_pb2

from services.common.ids import new_id
from services.rlm.interpreter.attach_stream import AttachStream, AttachStub
from services.rlm.interpreter.dispatcher import Invocation, ToolDispatcher
from services.rlm.interpreter.execution import Execution
from services.rlm.interpreter.output_pump import OutputPump
from services.rlm.interpreter.values import Encoded, parts, variables
from services.rlm.spec import PROTOCOL_VERSION

_STUBBORN_SECONDS = 15.0

Opening = tuple[tuple[attach_pb2.ToolSpec, ...], tuple[attach_pb2.OutputField, ...]]


class SandboxConnection:
    """One lease's executions. Methods are for the worker thread, `on_…` and `aclose` for the event loop."""

    def __init__(self, stub: AttachStub, lease: str, epoch: int, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.dispatcher = ToolDispatcher(self._answer)
        self._stream = AttachStream(stub, lease, epoch, loop, self)
        self._opened: Opening | None = None
        self._held: set[str] = set()
        self._executions: dict[str, Execution] = {}
        self._unfinished: Execution | None = None
        self._lost: str | None = None
        self._lock = threading.Lock()

    def open(self, tools: Sequence[attach_pb2.ToolSpec], fields: Sequence[attach_pb2.OutputField]) -> None:
        """Attach, or say that tools or outputs are others than before."""
        wanted = (tuple(tools), tuple(fields))
        if wanted != self._opened:
            self._opened = wanted
            self._stream.open(*wanted)

    def run(
        self,
        code: str,
        values: Mapping[str, Encoded],
        *,
        invocation: Invocation,
        pump: OutputPump | None,
        timeout_ms: int,
        max_output_bytes: int,
    ) -> Execution:
        """Start `code` with `values` set first; the returned execution is to be waited for, then forgotten.

        Raises:
            CodeInterpreterError: the sandbox is gone, or code that was interrupted does not end.
        """
        self._await_unfinished()
        execution_id = new_id()
        hooks = self.dispatcher.begin(execution_id, invocation, contextvars.copy_context())
        execution = Execution(execution_id, hooks, self._cancel, pump)
        with self._lock:
            if self._lost is not None:
                raise CodeInterpreterError(self._lost)
            self._executions[execution_id] = execution
        for part in parts(values, self._held):
            self._stream.send(execute=attach_pb2.Execute(execution_id=execution_id, values=[part], partial=True))
        self._held.update(value.sha256 for value in values.values())
        self._stream.send(
            execute=attach_pb2.Execute(
                execution_id=execution_id,
                invocation=invocation.scope.id,
                code=code.encode("utf-8", "surrogatepass"),
                variables=variables(values),
                timeout_ms=timeout_ms,
                max_output_bytes=max_output_bytes,
            )
        )
        return execution

    def forget(self, execution: Execution, *, ended: bool) -> None:
        """Stop waiting for an execution; one that has not ended keeps the sandbox busy until it has."""
        if not ended:
            self._unfinished = execution
            return
        with self._lock:
            self._executions.pop(execution.id, None)

    def send_values_again(self) -> None:
        """Take it that the sandbox holds no values any more."""
        self._held.clear()

    async def aclose(self) -> None:
        """End the stream and the tool threads; the lease and its sandbox stay."""
        self._fail_all("The interpreter was closed.")
        self.dispatcher.close()
        await self._stream.aclose()

    def on_ready(self, ready: attach_pb2.Ready) -> None:
        """Check the sandbox's protocol and learn which values it holds."""
        if ready.protocol_version != PROTOCOL_VERSION:
            self._fail_all(f"The sandbox speaks protocol version {ready.protocol_version}, not {PROTOCOL_VERSION}.")

    def on_output(self, output: attach_pb2.Output) -> None:
        """Stream what a running step prints."""
        execution = self._executions.get(output.execution_id)
        if execution is not None and execution.pump is not None:
            execution.pump.add("stderr" if output.stderr else "stdout", output.data)

    def on_tool_call(self, call: attach_pb2.ToolCall) -> None:
        """Have a host tool called."""
        self.dispatcher.submit(call)

    def on_done(self, done: attach_pb2.Done) -> None:
        """Give a waiting step its outcome."""
        execution = self._executions.get(done.execution_id)
        if execution is not None:
            if execution.pump is not None:
                execution.pump.flush()
            execution.finish(done)

    def on_lost(self, reason: str) -> None:
        """Fail every wait: this sandbox gives nothing more."""
        self._fail_all(reason)

    def _await_unfinished(self) -> None:
        """Wait for code that was interrupted: a sandbox runs one piece at a time and ends stubborn code by force."""
        execution, self._unfinished = self._unfinished, None
        if execution is None or self._lost is not None:
            return
        execution.limit(time.monotonic() + _STUBBORN_SECONDS)
        done = execution.wait()
        self.forget(execution, ended=True)
        if done is None:
            raise CodeInterpreterError("The code that was interrupted did not end.")

    def _fail_all(self, reason: str) -> None:
        with self._lock:
            self._lost = self._lost or reason
            executions = list(self._executions.values())
            self._executions.clear()
        for execution in executions:
            execution.fail(CodeInterpreterError(reason))

    def _cancel(self, execution_id: str) -> None:
        self._stream.send(cancel=attach_pb2.CancelExecution(execution_id=execution_id))

    def _answer(self, call_id: str, value: bytes | None, error: str) -> None:
        if value is None:
            self._stream.send(tool_result=attach_pb2.ToolResult(call_id=call_id, error=error or "The tool failed."))
        else:
            self._stream.send(tool_result=attach_pb2.ToolResult(call_id=call_id, value=value))
