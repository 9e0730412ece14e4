"""Host tools as declarations, and the native tools made of them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from services.common.errors import FleetError
from services.rlm.invocation.hooks import step_hooks
from services.rlm.invocation.scope import AsyncToolHandler, current_scope

if TYPE_CHECKING:
    import dspy

NATIVE_LLM_TOOLS = frozenset({"llm_query", "llm_query_batched"})
"""The tools that DSPy brings itself; their calls have their own budget."""


@dataclass(frozen=True)
class ToolDeclaration:
    """A host tool as the model is told of it.

    Attributes:
        name: a Python identifier.
        description: what the model reads.
        parameters: JSON schema by parameter name, in order; one with a `default` may be left out.
        counted: whether a call spends a unit of `tool_calls`.
    """

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    counted: bool = True

    def describe(self) -> dict[str, JsonValue]:
        """Return the declaration as JSON, for the fingerprint."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": [[name, dict(schema)] for name, schema in self.parameters.items()],
            "counted": self.counted,
        }


def native_tool(declaration: ToolDeclaration) -> dspy.Tool:
    """Return the `dspy.Tool` that forwards to the current scope's handler of the same name.

    The tool outlives an invocation: what it does is decided by the scope in whose context it is called.
    """
    import dspy

    def forward(**arguments: Any) -> JsonValue:
        return _call(declaration.name, arguments)

    forward.__name__ = forward.__qualname__ = declaration.name
    forward.__doc__ = declaration.description
    forward.__signature__ = _signature(declaration)  # type: ignore[attr-defined]
    return dspy.Tool(
        forward,
        name=declaration.name,
        desc=declaration.description,
        args={name: dict(schema) for name, schema in declaration.parameters.items()},
        arg_types=dict.fromkeys(declaration.parameters, Any),
    )


def _signature(declaration: ToolDeclaration) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=schema.get("default", inspect.Parameter.empty),
                annotation=Any,
            )
            for name, schema in declaration.parameters.items()
        ]
    )


def _call(name: str, arguments: Mapping[str, Any]) -> JsonValue:
    scope = current_scope()
    if scope is None:
        raise FleetError("TURN_CANCELLED", "No Turn is running; its tools can't be called.")
    scope.check()
    handler = scope.tools.get(name)
    if handler is None:
        raise FleetError("UNIMPLEMENTED", f"{name} is not available in this Turn.")
    call = asyncio.run_coroutine_threadsafe(_handled(handler, arguments), scope.loop)
    step = step_hooks.get()
    undo = [hooks(call.cancel) for hooks in (scope.on_cancel, step.add if step else None) if hooks]
    try:
        return call.result()
    except CancelledError:
        scope.check()
        raise FleetError("CANCELLED", f"{name} was interrupted.") from None
    finally:
        for forget in undo:
            forget()


async def _handled(handler: AsyncToolHandler, arguments: Mapping[str, Any]) -> JsonValue:
    return await handler(**arguments)
