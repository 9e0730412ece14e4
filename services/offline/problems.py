"""Refusals in the error shape of the Chat Completions protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One refused request.

    Attributes:
        status: HTTP status code.
        message: What is wrong and what would be accepted, for the caller to read.
        param: Path of the field at fault, such as ``messages[0].role``, or None for the whole body.
        code: Stable machine-readable cause.
    """

    status: int
    message: str
    param: str | None
    code: str

    @property
    def kind(self) -> str:
        """The protocol's coarse error type."""
        return "server_error" if self.status >= 500 else "invalid_request_error"

    def body(self) -> dict[str, object]:
        """The JSON body ``{"error": {...}}``."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def invalid(param: str | None, message: str, code: str = "invalid_value") -> Problem:
    """A 400 about one field."""
    return Problem(400, message, param, code)
