"""Runs the host tools that sandbox code calls: concurrently, within the budget, never after the invocation's end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from fleet.sandbox.v1 import attach_pb2

from services.common.errors import FleetError
from services.rlm.events import ToolCalled, ToolCompleted
from services.rlm.failures import to_fleet_error
from services.rlm.interpreter.tool_gate import admit
from services.rlm.interpreter.values import ValueNotJsonError, loads, to_json
from services.rlm.invocation.hooks import CancelHooks, step_hooks
from services.rlm.invocation.scope import InvocationScope
from services.rlm.tools import NATIVE_LLM_TOOLS

_LOG = logging.getLogger(__name__)
_WORKERS = 8
_SHOWN_CHARS = 2048
_ERROR_CHARS = 1000
_RESULT_BYTES = 8 << 20

Reply = Callable[[str, bytes | None, str], None]
"""Sends a call's result: its id, the JSON of its value or None, and the error if it has no value."""


@dataclass(frozen=True)
class Invocation:
    """What the tools of one invocation work with.

    Attributes:
        scope: the invocation.
        tools: functions by name, as the RLM gave them.
        uncounted: tools whose calls are not counted as tool calls.
    """

    scope: InvocationScope
    tools: Mapping[str, Callable[..., Any]]
    uncounted: Collection[str]


@dataclass(frozen=True)
class _Step:
    invocation: Invocation
    context: Context
    hooks: CancelHooks


class ToolDispatcher:
    """Takes tool calls from the stream and answers each from a bounded pool of threads."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="rlm-tool")
        self._steps: dict[str, _Step] = {}
        self._lock = threading.Lock()

    def begin(self, execution_id: str, invocation: Invocation, context: Context) -> CancelHooks:
        """Let the code of an execution call tools, in copies of `context`; returns what calls those calls off."""
        hooks = CancelHooks()
        context.run(step_hooks.set, hooks)
        with self._lock:
            self._steps[execution_id] = _Step(invocation, context, hooks)
        return hooks

    def end_invocation(self) -> None:
        """Refuse every call from here, and call off those that run."""
        with self._lock:
            steps = list(self._steps.values())
            self._steps.clear()
        for step in steps:
            step.hooks.fire()

    def submit(self, call: attach_pb2.ToolCall) -> None:
        """Answer `call` in due course; returns at once, any thread."""
        with self._lock:
            step = self._steps.get(call.execution_id)
        if step is None:
            self._reply(call.call_id, None, "The Turn of this code is over; its tools can't be called any more.")
            return
        try:
            self._pool.submit(step.context.copy().run, self._answer, step, call)
        except RuntimeError:
            _LOG.info("tool call after the interpreter was closed")

    def close(self) -> None:
        """Call everything off and let the threads end."""
        self.end_invocation()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, step: _Step, call: attach_pb2.ToolCall) -> None:
        scope = step.invocation.scope
        scope.emit(ToolCalled(call.call_id, call.name, _shown(call.arguments)))
        began = time.monotonic()
        value, error = None, ""
        try:
            value = self._value(step, call)
        except Exception as failure:  # noqa: BLE001 - whatever a tool raises is told to the code that called it
            error = _describe(call.name, failure)
        duration_ms = round((time.monotonic() - began) * 1000)
        scope.emit(ToolCompleted(call.call_id, call.name, _shown(value or b""), error, duration_ms))
        self._reply(call.call_id, value, error)

    def _value(self, step: _Step, call: attach_pb2.ToolCall) -> bytes:
        invocation = step.invocation
        tool = invocation.tools.get(call.name)
        if tool is None:
            raise FleetError("UNIMPLEMENTED", f"{call.name} is not available.")
        arguments = loads(call.arguments or b"{}")
        reservation = admit(invocation.scope, call.name, arguments, invocation.uncounted)
        try:
            result = tool(**arguments)
        except RuntimeError:
            # Native llm_query* raise this, and only this, when their own counter refuses before anything is sent.
            if reservation is not None and call.name in NATIVE_LLM_TOOLS:
                invocation.scope.refund(reservation, reservation.amount)
            raise
        try:
            data = to_json(result, allow_nan=False)
        except ValueNotJsonError as error:
            raise ValueNotJsonError(f"{call.name} gave {error}") from error
        if len(data) > _RESULT_BYTES:
            raise ValueError(f"{call.name} gave {len(data):,} bytes of JSON; at most {_RESULT_BYTES:,} are allowed")
        return data


def _shown(data: bytes) -> str:
    return data[: 4 * _SHOWN_CHARS].decode("utf-8", "replace")[:_SHOWN_CHARS]


def _describe(name: str, failure: Exception) -> str:
    """Return what the sandbox code is told: public words, never a provider's or a stack's."""
    if isinstance(failure, FleetError):
        return failure.message
    if isinstance(failure, (ValueError, TypeError, RuntimeError)):
        return f"{type(failure).__name__}: {str(failure)[:_ERROR_CHARS]}"
    known = to_fleet_error(failure, "sub")
    if known.reason == "INTERNAL":
        _LOG.warning("tool %s failed with %s", name, type(failure).__name__)
    return known.message
