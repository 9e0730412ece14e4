"""The host's request to run code, collected from one or more frames."""

from __future__ import annotations

import sys

from .frames import Frame
from .values import ENCODINGS, ValueStore, VariableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_OUTPUT_BYTES = 4 << 20


class RunRequest:
    """What is to run.

    Args:
        execution_id: Chosen by the host.
    """

    def __init__(self, execution_id: str) -> None:
        self.id = execution_id
        self.invocation = ""
        self.variables: list[dict[str, Any]] = []
        self.timeout_seconds = 0.0
        self.max_output_bytes = 0

    def add(self, frame: Frame, store: ValueStore) -> bytes | None:
        """Take a frame; return the code when it is the last one.

        Args:
            frame: Its body is the code followed by parts of values.
            store: Where the values go.

        Raises:
            VariableError: The values are not as announced.
        """
        control = frame.control
        variables = control.get("variables", [])
        keep = [variable["sha256"] for variable in variables]
        offset = control["code_bytes"]
        code = frame.body[:offset]
        for part in control.get("values", []):
            end = offset + part["length"]
            store.add_part(part["sha256"], frame.body[offset:end], part["byte_size"], keep=keep)
            offset = end
        if offset != len(frame.body):
            raise VariableError("the body is not as long as its parts")
        if control.get("partial"):
            return None
        if any(variable["encoding"] not in ENCODINGS for variable in variables):
            raise VariableError("a variable has no known encoding")
        self.invocation = str(control.get("invocation", ""))
        self.variables = variables
        self.timeout_seconds = control.get("timeout_ms", 0) / 1000
        self.max_output_bytes = min(control.get("max_output_bytes") or MAX_OUTPUT_BYTES, MAX_OUTPUT_BYTES)
        return code

    def for_worker(self, code_bytes: int, dropped: list[str]) -> dict[str, Any]:
        """Return the control part of the worker's command."""
        return {
            "execution_id": self.id,
            "invocation": self.invocation,
            "code_bytes": code_bytes,
            "variables": self.variables,
            "values": [],
            "dropped": dropped,
            "partial": False,
            "max_output_bytes": self.max_output_bytes,
        }


def python_version() -> str:
    """Return the interpreter's version, such as "3.11.7"."""
    return ".".join(str(part) for part in sys.version_info[:3])
