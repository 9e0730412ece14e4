"""The persistent namespace of the model's code."""

from __future__ import annotations

import builtins
import sys

from .output import cut
from .report import describe
from .submit import Submission, Submitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType
    from typing import Any

_ONLY_AST = 0x400
_RECURSION_LIMIT = 1_000
_MAX_RECURSION_LIMIT = 50_000


class Outcome:
    """How code ended.

    Attributes:
        status: "ok", "final", "syntax_error" or "error".
        error: Description of the exception, or None.
        result_repr: repr of a trailing expression's value, UTF-8, or empty.
    """

    __slots__ = ("error", "result_repr", "status")

    def __init__(self, status: str, error: dict[str, Any] | None = None, result_repr: bytes = b"") -> None:
        self.status = status
        self.error = error
        self.result_repr = result_repr


class Namespace:
    """Runs code in one `__main__` module that lives as long as the worker.

    Args:
        submission: Asked whether SUBMIT took outputs.
    """

    def __init__(self, submission: Submission) -> None:
        self._submission = submission
        self._module = type(sys)("__main__")
        self._host_names: set[str] = set()
        self._steps = 0
        sys.modules["__main__"] = self._module
        for name, function in {"exit": sys.exit, "quit": sys.exit, "help": _help}.items():
            setattr(builtins, name, function)
        self._set_recursion_limit = sys.setrecursionlimit
        sys.setrecursionlimit = self._raise_recursion_limit

    def _raise_recursion_limit(self, limit: int, /) -> None:
        """Stand in for `sys.setrecursionlimit`: beyond some depth there is only a crash to be had."""
        self._set_recursion_limit(min(limit, _MAX_RECURSION_LIMIT))

    @property
    def globals(self) -> dict[str, Any]:
        """The module's dictionary."""
        return self._module.__dict__

    def set_host_functions(self, functions: Mapping[str, Any]) -> None:
        """Replace the host's functions; those of an earlier set that are no longer there disappear."""
        for name in self._host_names - set(functions):
            self.globals.pop(name, None)
        self._host_names = set(functions)
        self.globals.update(functions)

    def run(self, code: str, variables: Mapping[str, Any], functions: Mapping[str, Any], repr_limit: int) -> Outcome:
        """Set variables and host functions, then run code to its end.

        Args:
            code: Python.
            variables: Set first; they replace what code made of them before.
            functions: The host's functions; they too are what they were, even if code assigned their names.
            repr_limit: Bytes of a trailing expression's repr that are kept.
        """
        self._steps += 1
        filename = f"<step {self._steps}>"
        self._submission.clear()
        self.globals.update(__name__="__main__", __builtins__=builtins)
        self.set_host_functions(functions)
        self.globals.update(variables)
        sys.modules["__main__"] = self._module
        self._set_recursion_limit(_RECURSION_LIMIT)
        try:
            body, expression, line = _compile(code, filename)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            return _syntax_outcome(error, filename)
        _remember_source(code, filename)
        try:
            exec(body, self.globals)  # noqa: S102 - running the model's code is what a sandbox is for
            value = eval(expression, self.globals) if expression is not None else None  # noqa: S307 - as above
            shown = b"" if value is None else cut(repr(value).encode("utf-8", "backslashreplace"), repr_limit)
        except Submitted:
            return Outcome("final")
        except BaseException as error:  # noqa: BLE001 - every exception of the model's code is told to the model
            return Outcome("final") if self._submission.final is not None else self._failure(error, filename, line)
        return Outcome("final" if self._submission.final is not None else "ok", None, shown)

    def _failure(self, error: BaseException, filename: str, last_line: int) -> Outcome:
        # A recursion that came close to a raised limit must not break the description of it.
        self._set_recursion_limit(_RECURSION_LIMIT * 2)
        report = describe(error, filename)
        report["line"] = report["line"] or last_line
        return Outcome("error", report)


def _help(*subjects: Any) -> None:
    """Show documentation, as the interactive interpreter does."""
    import pydoc

    pydoc.help(*subjects)


def _syntax_outcome(error: BaseException, filename: str) -> Outcome:
    if isinstance(error, SyntaxError):
        error.filename = error.filename or filename
        return Outcome("syntax_error", describe(error, filename))
    return Outcome("syntax_error", {"type": "SyntaxError", "message": str(error), "line": 0, "traceback": ""})


def _compile(code: str, filename: str) -> tuple[CodeType, CodeType | None, int]:
    """Compile all statements, a trailing expression apart; also return that expression's line, or 0."""
    tree: Any = compile(code, filename, "exec", _ONLY_AST)
    expression, line = None, 0
    if tree.body and type(tree.body[-1]).__name__ == "Expr":
        import _ast

        last = tree.body.pop()
        line = last.lineno
        expression = compile(_ast.Expression(last.value), filename, "eval", 0, True)
    return compile(tree, filename, "exec", 0, True), expression, line


def _remember_source(code: str, filename: str) -> None:
    """Let tracebacks and `inspect.getsource` show the lines."""
    import linecache

    linecache.cache[filename] = (len(code), None, code.splitlines(True), filename)
