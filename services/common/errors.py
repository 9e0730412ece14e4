"""The one error type of every service, and where its code comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from fleet.common.v1 import error_reason_pb2
from google.rpc import code_pb2

DOMAIN = "fleet"
"""The domain of every `google.rpc.ErrorInfo` that a service sends."""

_PREFIX = "ERROR_REASON_"
_NO_METADATA: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class FieldViolation:
    """A request field that breaks its rule.

    Attributes:
        field: path of the field, such as `text` or `attachments[3]`.
        description: the rule with its limit.
    """

    field: str
    description: str


class FleetError(Exception):
    """An expected failure with a reason that a caller may branch on and a message that it may show.

    The message carries no secret, host path or stack.

    Attributes:
        reason: name of the `ErrorReason` without its prefix, such as `TURN_IN_PROGRESS`.
        code: the reason's `google.rpc.Code`.
        message: one plain sentence.
        metadata: further facts, such as the name of the running Turn.
        violations: the request's broken fields.
        retry_after: seconds after which the call may be tried again, or None.
    """

    def __init__(
        self,
        reason: error_reason_pb2.ErrorReason.ValueType | str,
        message: str,
        metadata: Mapping[str, str] = _NO_METADATA,
        *,
        violations: Sequence[FieldViolation] = (),
        retry_after: float | None = None,
    ) -> None:
        self.reason = reason_name(reason)
        self.code = code_of(self.reason)
        self.message = message
        self.metadata: Mapping[str, str] = MappingProxyType(dict(metadata))
        self.violations = tuple(violations)
        self.retry_after = retry_after
        super().__init__(f"{self.reason}: {message}")


def reason_name(reason: error_reason_pb2.ErrorReason.ValueType | str) -> str:
    """The name of `reason` without its prefix, from its number or its name with or without the prefix.

    Raises:
        ValueError: the catalogue has no such reason.
    """
    name = reason if isinstance(reason, str) else error_reason_pb2.ErrorReason.Name(reason)
    short = name.removeprefix(_PREFIX)
    if short not in _codes():
        raise ValueError(f"{short!r} is not in the catalogue of error reasons")
    return short


def code_of(reason: str) -> int:
    """The `google.rpc.Code` of a reason's short name, from the option of its enum value."""
    return _codes()[reason]


def reasons() -> tuple[str, ...]:
    """The short names of every reason that may be sent."""
    return tuple(_codes())


@cache
def _codes() -> Mapping[str, int]:
    return MappingProxyType(
        {
            value.name.removeprefix(_PREFIX): code_pb2.Code.Value(value.GetOptions().Extensions[error_reason_pb2.code])
            for value in error_reason_pb2.ErrorReason.DESCRIPTOR.values
            if value.number != 0
        }
    )
