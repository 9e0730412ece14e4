"""An in-process REPL with the names that a sandbox gives to model-written code."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dspy.primitives.code_interpreter import CodeExecutionError, FinalOutput


class Attachment:
    """One attached file, as the sandbox shows it."""

    def __init__(self, number: int, filename: str, data: bytes) -> None:
        self.id, self.filename, self.content_type = f"a{number}", filename, "text/plain"
        self.byte_size, self.sha256 = len(data), hashlib.sha256(data).hexdigest()
        self.path = f"attachments/{self.id}/{filename}"
        self.local_path = f"/workspace/{self.path}"
        self._data = data

    def bytes(self) -> bytes:
        return self._data

    def text(self) -> str:
        return self._data.decode()

    def lines(self) -> list[str]:
        return self.text().splitlines()

    def __repr__(self) -> str:
        return f"<attachment {self.filename}>"


class _Submitted(BaseException):
    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values


class OfflineRepl:
    """Runs programs with ``exec``; the variables in ``given`` are there from the start.

    Args:
        given: Names that programs find, such as ``attachments``.
        broken: For programs whose title holds the key: the error that they end in, once each.
    """

    def __init__(self, given: Mapping[str, Any], broken: Mapping[str, Exception] | None = None) -> None:
        self.tools: dict[str, Callable[..., Any]] = {}
        self.output_fields: list[dict[str, Any]] = []
        self.programs: list[str] = []
        self.outputs: list[str] = []
        self._names: dict[str, Any] = dict(given)
        self._broken = dict(broken or {})

    def start(self) -> None:
        """Nothing to start."""

    def shutdown(self) -> None:
        self._names.clear()

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        self.programs.append(code)
        for key in [key for key in self._broken if key in code.splitlines()[0]]:
            raise CodeExecutionError(str(self._broken.pop(key)))
        self._names.update(variables or {})
        self._names.update({name: _positional(tool) for name, tool in self.tools.items()}, SUBMIT=self._submit)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "<step>", "exec"), self._names)
        except _Submitted as submitted:
            self.outputs.append(printed.getvalue())
            return FinalOutput(submitted.values)
        except Exception as error:
            raise CodeExecutionError("".join(traceback.format_exception(error)[-3:])) from error
        self.outputs.append(printed.getvalue())
        return printed.getvalue()

    @staticmethod
    def _submit(**values: Any) -> None:
        raise _Submitted(values)


def _positional(tool: Callable[..., Any]) -> Callable[..., Any]:
    """A tool that also takes positional arguments: DSPy's own wrappers take keywords only."""
    names = list(inspect.signature(tool).parameters)

    def call(*values: Any, **named: Any) -> Any:
        return tool(**dict(zip(names, values, strict=False)), **named)

    return call


def attach(paths: list[Path]) -> list[Attachment]:
    """Attachments of real files."""
    return [Attachment(number, path.name, path.read_bytes()) for number, path in enumerate(paths)]
