"""The budget gate of tool calls: what must be granted before a tool may run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from services.common.errors import FleetError
from services.rlm.budget.gate import Dimension, Reservation
from services.rlm.invocation.scope import InvocationScope
from services.rlm.tools import NATIVE_LLM_TOOLS


def admit(
    scope: InvocationScope, tool: str, arguments: Mapping[str, Any], uncounted: Collection[str]
) -> Reservation | None:
    """Grant a call of `tool`, reserving what it spends; returns None when it spends nothing here.

    Args:
        scope: the invocation.
        tool: the tool's name.
        arguments: by parameter name.
        uncounted: tools whose calls are not counted as tool calls.

    Raises:
        FleetError: work is ending or a budget is spent.
        TypeError: the arguments of a model call are of another type.
        ValueError: a prompt is blank, or there is none.
    """
    scope.check()
    cause = scope.finalization.cause
    if cause is not None:
        message = f"The budget of {cause} is spent and no new work starts. Call SUBMIT with what you have."
        raise FleetError("BUDGET_EXHAUSTED", message, {"dimension": str(cause)})
    if tool in NATIVE_LLM_TOOLS:
        return scope.reserve(Dimension.LLM_CALLS, _prompts(tool, arguments))
    if tool in uncounted:
        return None
    return scope.reserve(Dimension.TOOL_CALLS, 1)


def _prompts(tool: str, arguments: Mapping[str, Any]) -> int:
    """Return how many prompts the call sends, after checking each."""
    if tool == "llm_query":
        _check_prompt("prompt", arguments.get("prompt"))
        return 1
    prompts = arguments.get("prompts")
    if not isinstance(prompts, list):
        raise TypeError(f"prompts must be a list of strings, not {type(prompts).__name__}")
    if not prompts:
        raise ValueError("prompts must hold at least one prompt")
    for index, prompt in enumerate(prompts):
        _check_prompt(f"prompts[{index}]", prompt)
    return len(prompts)


def _check_prompt(name: str, prompt: Any) -> None:
    if not isinstance(prompt, str):
        raise TypeError(f"{name} must be a string, not {type(prompt).__name__}")
    if not prompt.strip():
        raise ValueError(f"{name} is blank")
