"""Checks of what the worker says: model code can write to the worker's pipe, so nothing is believed."""

from __future__ import annotations

from . import wire_json
from .frames import Frame
from .link import MAX_VALUE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STATUSES = frozenset(("ok", "final", "syntax_error", "error"))
_MAX_TEXT = 16_000
_MAX_ID = 64


class ProtocolError(Exception):
    """The other side said something that can't be."""


class Answer:
    """The worker's result of an execution, checked for form.

    Args:
        frame: What the worker sent.

    Raises:
        ProtocolError: It isn't a result.
    """

    def __init__(self, frame: Frame) -> None:
        control = frame.control
        status, repr_bytes = control.get("status"), control.get("repr_bytes")
        if not isinstance(repr_bytes, int) or not 0 <= repr_bytes <= len(frame.body):
            raise ProtocolError("malformed result")
        if not isinstance(status, str) or status not in _STATUSES:
            raise ProtocolError("malformed result")
        self.status = status
        self.execution_id = control.get("execution_id")
        self.interrupted = control.get("interrupted") is True
        self.result_repr = frame.body[:repr_bytes]
        self.final = frame.body[repr_bytes:] if self.status == "final" else b""
        if self.status == "final" and not is_object(self.final):
            raise ProtocolError("malformed final outputs")
        failed = self.status in ("error", "syntax_error")
        self.error: dict[str, Any] | None = _checked_error(control.get("error")) if failed else None


class WorkerCall:
    """A host call as the worker sent it, checked for form.

    Args:
        frame: What the worker sent.

    Attributes:
        id: The worker's id of the call.
        name: The tool's name.
        invocation: What the worker says the calling thread belongs to; None when it can't tell.
        arguments: Bytes that should be a JSON object.

    Raises:
        ProtocolError: It isn't a call.
    """

    def __init__(self, frame: Frame) -> None:
        control = frame.control
        call_id, name, invocation = control.get("call_id"), control.get("name"), control.get("invocation")
        if not isinstance(call_id, str) or len(call_id) > _MAX_ID or not isinstance(name, str):
            raise ProtocolError("malformed call")
        self.id = call_id
        self.name = name
        self.invocation = invocation if isinstance(invocation, str) else None
        self.arguments = frame.body


def is_object(data: bytes) -> bool:
    """Return whether bytes are a JSON object of allowed size."""
    try:
        return len(data) <= MAX_VALUE_BYTES and isinstance(wire_json.loads(data), dict)
    except (ValueError, MemoryError):
        return False


def _checked_error(error: object) -> dict[str, Any]:
    if not isinstance(error, dict):
        raise ProtocolError("malformed error")
    texts = {key: error.get(key) for key in ("type", "message", "traceback")}
    line = error.get("line")
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(line, int):
        raise ProtocolError("malformed error")
    return {**{key: str(text)[:_MAX_TEXT] for key, text in texts.items()}, "line": min(max(line, 0), 1 << 31)}
