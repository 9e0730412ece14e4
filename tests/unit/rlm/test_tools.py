"""Host tools: native tools that forward to the current scope, and what the sandbox is told of them."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import JsonValue

from services.common.errors import FleetError
from services.rlm.budget.gate import LocalGate
from services.rlm.interpreter.tool_specs import tool_specs
from services.rlm.invocation.hooks import CancelHooks, step_hooks
from services.rlm.invocation.scope import InvocationScope, enter_scope
from services.rlm.tools import ToolDeclaration, native_tool
from tests.fakes.rlm_events import KeptEvents

READ = ToolDeclaration(
    "read", "Reads a file.", {"path": {"type": "string"}, "limit": {"type": "integer", "default": 5}}
)


async def read(path: str, limit: int = 5) -> JsonValue:
    if path == "wait":
        await asyncio.Event().wait()
    return [path, limit]


async def _entered(**tools: object) -> InvocationScope:
    scope = InvocationScope(
        sink=KeptEvents(), gate=LocalGate({}), tools=tools or {"read": read},
        deadline=1e9, work_deadline=1e9, recursion=False, max_iters=1,
    )  # fmt: skip
    enter_scope(scope)
    return scope


async def test_a_native_tool_forwards_to_the_scope_it_is_called_in() -> None:
    tool = native_tool(READ)
    await _entered()
    assert await asyncio.to_thread(tool, path="a") == ["a", 5]
    assert await asyncio.to_thread(tool, path="a", limit=2) == ["a", 2]
    with pytest.raises(ValueError, match="limit"):
        await asyncio.to_thread(tool, path="a", limit="x")
    assert (tool.name, tool.desc, list(tool.args)) == ("read", "Reads a file.", ["path", "limit"])


async def test_a_tool_is_refused_without_a_turn_and_after_it() -> None:
    tool = native_tool(READ)
    with pytest.raises(FleetError, match="No Turn is running"):
        await asyncio.to_thread(tool, path="a")
    scope = await _entered()
    scope.end()
    with pytest.raises(FleetError, match="is over"):
        await asyncio.to_thread(tool, path="a")
    await _entered(other=read)
    with pytest.raises(FleetError, match="not available"):
        await asyncio.to_thread(tool, path="a")


@pytest.mark.parametrize("by_step", [True, False])
async def test_cancelling_ends_a_waiting_tool(by_step: bool) -> None:
    tool, hooks = native_tool(READ), CancelHooks()
    scope = await _entered()
    step_hooks.set(hooks)
    waiting = asyncio.create_task(asyncio.to_thread(tool, path="wait"))
    await asyncio.sleep(0)
    if by_step:
        hooks.fire()
        expected = "was interrupted"
    else:
        scope.cancel()
        expected = "was cancelled"
    with pytest.raises(FleetError, match=expected):
        await waiting


def test_the_sandbox_is_told_names_parameters_and_what_may_be_left_out() -> None:
    def llm_query(prompt: str) -> str:
        """Ask."""
        return prompt

    specs = tool_specs({"read": native_tool(READ).func, "llm_query": llm_query})
    assert [(s.name, [(p.name, p.optional) for p in s.parameters], s.description) for s in specs] == [
        ("read", [("path", False), ("limit", True)], "Reads a file."),
        ("llm_query", [("prompt", False)], "Ask."),
    ]
