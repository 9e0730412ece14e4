"""The floor: a code interpreter that runs the model's code in this very process, without any isolation."""

from __future__ import annotations

import inspect
import io
import traceback
from collections.abc import Callable
from typing import Any

from dspy.primitives.code_interpreter import CodeExecutionError, FinalOutput


class _Submitted(BaseException):
    """Carries SUBMIT's values past `except Exception` in the code."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values


class ExecInterpreter:
    """A DSPy CodeInterpreter over `exec`; each has its own globals and its own `print`."""

    execution_instructions = "Plain Python."

    def __init__(self) -> None:
        self._tools: dict[str, Callable[..., Any]] = {}
        self._globals: dict[str, Any] = {}
        self.output_fields: list[dict[str, str]] = []

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """The host tools; DSPy puts each invocation's own in."""
        return self._tools

    def start(self) -> None:
        """Do nothing: there is nothing to start."""

    def shutdown(self) -> None:
        """Forget all variables."""
        self._globals.clear()

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Run `code`.

        Raises:
            CodeExecutionError: the code failed.
        """
        printed = io.StringIO()
        tools = {name: _by_keyword(tool) for name, tool in self._tools.items()}
        self._globals.update(variables or {}, **tools, SUBMIT=self._submit)
        self._globals["print"] = lambda *values: print(*values, file=printed)
        try:
            exec(compile(code, "<step>", "exec"), self._globals)
        except _Submitted as submitted:
            return FinalOutput(submitted.values)
        except Exception as error:
            raise CodeExecutionError(traceback.format_exc(limit=-1)) from error
        return printed.getvalue()

    def _submit(self, *values: Any, **named: Any) -> None:
        names = [field["name"] for field in self.output_fields]
        raise _Submitted({**dict(zip(names, values, strict=False)), **named})


def _by_keyword(tool: Callable[..., Any]) -> Callable[..., Any]:
    """`tool` for code that gives arguments by position: DSPy's tools take them by name only."""
    signature = inspect.signature(tool)
    return lambda *values, **named: tool(**signature.bind(*values, **named).arguments)
