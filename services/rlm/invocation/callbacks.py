"""DSPy's callbacks, turned into events, usage and steps of an invocation.

Importing this module imports DSPy. DSPy calls back in whatever thread a call runs, and logs what a callback raises.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from services.rlm.events import LmCalled, LmCompleted
from services.rlm.invocation.scope import InvocationScope
from services.rlm.models.model_errors import called_off, read_model_error
from services.rlm.models.usage import ModelUse

call_purpose: ContextVar[str] = ContextVar("rlm_call_purpose", default="llm_query")
"""What the calling code asks a model for; the adapter sets it, and calls from sandbox code keep the default."""


@dataclass(frozen=True)
class _Started:
    purpose: str
    at: float


class ModelCallback(BaseCallback):  # type: ignore[misc]
    """Tells about the calls of one model in one role; given to the `dspy.LM` when it is made."""

    def __init__(self, scope: InvocationScope, role: str, model: str) -> None:
        """Watch a model.

        Args:
            scope: the invocation that the calls belong to.
            role: `root`, `sub` or `child`.
            model: the model's id as configured.
        """
        self._scope = scope
        self._role = role
        self._model = model
        self._started: dict[str, _Started] = {}
        self._lock = threading.Lock()

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Tell that the model is being asked."""
        purpose = "llm_query" if self._role == "sub" else call_purpose.get()
        with self._lock:
            self._started[call_id] = _Started(purpose, time.monotonic())
        self._scope.emit(LmCalled(call_id, self._role, self._model, purpose))

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Count what the call used and tell how it ended."""
        with self._lock:
            started = self._started.pop(call_id, None)
        if started is None:
            return
        use = self._use(outputs)
        off = called_off(exception) if exception is not None else None
        if off is None or off.sent:
            self._scope.record_use(use)
        self._scope.emit(
            LmCompleted(
                call_id=call_id,
                role=self._role,
                model=self._model,
                purpose=started.purpose,
                prompt_tokens=use.prompt_tokens,
                completion_tokens=use.completion_tokens,
                duration_ms=round((time.monotonic() - started.at) * 1000),
                error=_error_text(exception),
            )
        )

    def _use(self, outputs: Any) -> ModelUse:
        # Only typed responses carry usage; the invocation's settings ask for them.
        if not isinstance(outputs, dspy.LMResponse):
            return ModelUse(self._role, self._model, 1, 0, 0)
        usage = outputs.usage
        return ModelUse(
            role=self._role,
            model=self._model,
            calls=1,
            prompt_tokens=_count(getattr(usage, "prompt_tokens", None) or getattr(usage, "input_tokens", None)),
            completion_tokens=_count(
                getattr(usage, "completion_tokens", None) or getattr(usage, "output_tokens", None)
            ),
            cost_usd=float(outputs.cost) if outputs.cost else None,
        )


class StepCallback(BaseCallback):  # type: ignore[misc]
    """Tells when the loop asks for an action and what the model thought."""

    def __init__(self, scope: InvocationScope) -> None:
        """Watch the loop of `scope`."""
        self._scope = scope
        self._actions: set[str] = set()

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Begin a step when an action is asked for."""
        if is_action(getattr(instance, "signature", None)):
            self._actions.add(call_id)
            self._scope.steps.begin()

    def on_module_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Tell the reasoning of an action that has arrived."""
        if call_id not in self._actions:
            return
        self._actions.discard(call_id)
        if exception is None and outputs is not None:
            self._scope.steps.reasoned(str(outputs.reasoning), str(outputs.code))


def is_action(signature: Any) -> bool:
    """Return whether `signature` is the one with which an RLM asks for its next program."""
    outputs = getattr(signature, "output_fields", {})
    inputs = getattr(signature, "input_fields", {})
    return list(outputs) == ["reasoning", "code"] and "repl_history" in inputs


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def _error_text(exception: BaseException | None) -> str:
    if exception is None:
        return ""
    if isinstance(exception, asyncio.CancelledError) or called_off(exception):
        return "cancelled"
    failure = read_model_error(exception)
    return failure.brief if failure is not None else "failed"
