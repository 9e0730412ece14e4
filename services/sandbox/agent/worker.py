"""The worker process: runs code on command, one execution at a time, in one namespace."""

from __future__ import annotations

import os
import sys

from . import frames, values
from .frames import Frame
from .interrupts import Interrupts
from .lineage import Lineage
from .link import Link, ToolError
from .namespace import Namespace, Outcome
from .report import describe
from .streams import Streams
from .submit import Submission, make_submit
from .tools import Parameter, make_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What model code usually imports; loaded while nothing else is to do, so that the first step needn't wait for it.
_PRELOADED = (
    "json", "re", "math", "collections", "itertools", "functools", "datetime", "traceback", "threading", "random",
    "textwrap", "statistics", "string", "csv", "typing", "dataclasses", "pathlib", "concurrent.futures.thread",
    "fleet_capsules",
)  # fmt: skip


class Worker:
    """Serves the supervisor until its socket closes.

    Args:
        descriptor: The control socket.
    """

    def __init__(self, descriptor: int) -> None:
        self._interrupts = Interrupts()
        self._interrupts.end()
        self._lineage = Lineage()
        self._link = Link(descriptor, self._interrupts, self._lineage)
        self._streams = Streams(self._lineage)
        self._submission = Submission(self._lineage)
        self._namespace = Namespace(self._submission)
        self._functions: dict[str, Any] = {}
        self._values = values.ValueStore(_UNLIMITED)
        self._texts: dict[str, str] = {}

    def serve(self) -> None:
        """Take commands for ever; the reader thread ends the process when the socket closes."""
        self._link.send(Frame(frames.READY))
        self._preload()
        while True:
            frame = self._link.next_command()
            if frame.type == frames.OPEN:
                self._open(frame)
            elif frame.type == frames.EXECUTE:
                self._execute(frame)

    def _preload(self) -> None:
        for name in _PRELOADED:
            if not self._link.idle:
                return
            try:
                __import__(name)
            except ImportError:
                continue

    def _open(self, frame: Frame) -> None:
        functions: dict[str, Any] = {"ToolError": ToolError}
        for tool in frame.control["tools"]:
            parameters = [Parameter(item["name"], item["optional"]) for item in tool["parameters"]]
            name = tool["name"]
            functions[name] = make_function(name, parameters, tool["description"], self._caller(name))
        fields = [(field["name"], field["type"]) for field in frame.control["output_fields"]]
        functions["SUBMIT"] = make_submit(fields, self._submission)
        self._functions = functions
        self._namespace.set_host_functions(functions)

    def _caller(self, name: str) -> Callable[[dict[str, Any]], Any]:
        return lambda arguments: self._link.call(name, arguments)

    def _execute(self, frame: Frame) -> None:
        control = frame.control
        offset = control["code_bytes"]
        for sha256 in control["dropped"]:
            self._values.discard(sha256)
            self._texts.pop(sha256, None)
        for part in control["values"]:
            end = offset + part["length"]
            self._values.add_part(part["sha256"], frame.body[offset:end], part["byte_size"])
            offset = end
        if control["partial"]:
            return
        self._lineage.enter(control["invocation"])
        code = frame.body[: control["code_bytes"]].decode("utf-8", "surrogatepass")
        try:
            variables = {item["name"]: self._value(item) for item in control["variables"]}
        except values.VariableError as error:
            outcome = Outcome("error", {"type": "VariableError", "message": str(error), "line": 0, "traceback": ""})
        else:
            outcome = self._run(code, variables, control["max_output_bytes"])
        if self._link.forked:
            # This is a copy that model code forked and that ran to the end of the step.
            os._exit(0)
        self._report(control["execution_id"], outcome)

    def _value(self, item: dict[str, Any]) -> Any:
        sha256, encoding = item["sha256"], item["encoding"]
        if encoding != values.TEXT:
            return values.decode(encoding, self._values.get(sha256))
        if sha256 not in self._texts:
            # Text can't be changed, so one decoded copy serves every execution and the bytes can go.
            self._texts[sha256] = values.decode(encoding, self._values.get(sha256))
            self._values.discard(sha256)
        return self._texts[sha256]

    def _run(self, code: str, variables: dict[str, Any], repr_limit: int) -> Outcome:
        self._streams.restore()
        outcome = self._begin()
        while True:
            try:
                if outcome is None:
                    outcome = self._namespace.run(code, variables, self._functions, repr_limit)
                self._interrupts.end()
                break
            except KeyboardInterrupt as error:
                # The interrupt hit between the model's code and the worker's; what the code achieved stands.
                outcome = outcome or Outcome("error", describe(error, ""))
        self._streams.flush()
        return outcome

    def _begin(self) -> Outcome | None:
        try:
            self._interrupts.begin()
        except BaseException as error:  # noqa: BLE001 - a signal handler of an earlier step may raise anything
            return Outcome("error", describe(error, ""))
        return None

    def _report(self, execution_id: str, outcome: Outcome) -> None:
        final = self._submission.final if outcome.status == "final" else None
        control = {
            "execution_id": execution_id,
            "status": outcome.status,
            "error": outcome.error,
            "interrupted": self._interrupts.interrupted,
            "repr_bytes": len(outcome.result_repr),
        }
        self._link.send(Frame(frames.DONE, control, outcome.result_repr + (final or b"")))


# The supervisor says what to forget; its own store has the limit.
_UNLIMITED = 1 << 62


def run(descriptor: int) -> None:
    """Be a worker on a control socket; never returns normally.

    Args:
        descriptor: The control socket.
    """
    sys.argv = ["python"]
    Worker(descriptor).serve()
