"""Translates FleetError to `google.rpc.Status` and what a gRPC call raised back to FleetError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from google.protobuf import duration_pb2
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2

from services.common.errors import DOMAIN, FieldViolation, FleetError, reasons
from services.common.text import clean

DETAILS_KEY = "grpc-status-details-bin"
"""The trailing metadata that carries the serialized Status."""

_MAX_STATUS_BYTES = 4_500
_MAX_MESSAGE = 600
_MAX_VALUE = 512
_REASON_OF_CODE = {
    code_pb2.INVALID_ARGUMENT: "INVALID_ARGUMENT",
    code_pb2.OUT_OF_RANGE: "INVALID_ARGUMENT",
    code_pb2.UNAUTHENTICATED: "UNAUTHENTICATED",
    code_pb2.PERMISSION_DENIED: "PERMISSION_DENIED",
    code_pb2.UNAVAILABLE: "UNAVAILABLE",
    code_pb2.UNIMPLEMENTED: "UNIMPLEMENTED",
    code_pb2.DEADLINE_EXCEEDED: "DEADLINE_EXCEEDED",
    code_pb2.CANCELLED: "CANCELLED",
    code_pb2.RESOURCE_EXHAUSTED: "CAPACITY_EXHAUSTED",
}
_MESSAGE_OF_REASON = {
    "INVALID_ARGUMENT": "The request was refused.",
    "UNAUTHENTICATED": "The credential was refused.",
    "PERMISSION_DENIED": "The call is not allowed.",
    "INTERNAL": "The service failed.",
    "UNAVAILABLE": "The service can't be reached.",
    "UNIMPLEMENTED": "The service has no such method.",
    "DEADLINE_EXCEEDED": "The deadline passed before the answer.",
    "CANCELLED": "The call was cancelled.",
    "CAPACITY_EXHAUSTED": "The message is too large or the service is at capacity.",
}


def to_status(error: FleetError) -> status_pb2.Status:
    """The Status of `error`: exactly one ErrorInfo, then BadRequest and RetryInfo where it has them.

    It is bounded, because clients drop calls whose trailing metadata is larger than 8 KiB: texts are cut, and then
    violations and metadata left out, the last and the longest first.
    """
    metadata = {key: _cut(value, _MAX_VALUE) for key, value in error.metadata.items()}
    violations = [(v.field, _cut(v.description, _MAX_VALUE)) for v in error.violations]
    status = _status(error, metadata, violations)
    while status.ByteSize() > _MAX_STATUS_BYTES:
        if len(violations) > 1:
            violations.pop()
        elif metadata:
            metadata.pop(max(metadata, key=lambda key: len(metadata[key])))
        else:
            break
        status = _status(error, metadata, violations)
    return status


def _status(error: FleetError, metadata: dict[str, str], violations: list[tuple[str, str]]) -> status_pb2.Status:
    status = status_pb2.Status(code=error.code, message=_cut(error.message, _MAX_MESSAGE))
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)
    status.details.add().Pack(info)
    if violations:
        bad = error_details_pb2.BadRequest()
        for field, description in violations:
            bad.field_violations.add(field=_cut(field, _MAX_VALUE), description=description)
        status.details.add().Pack(bad)
    if error.retry_after is not None:
        delay = duration_pb2.Duration()
        delay.FromNanoseconds(round(error.retry_after * 1e9))
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return status


def _cut(text: str, characters: int) -> str:
    whole = clean(text)
    return whole if len(whole) <= characters else f"{whole[: characters - 1]}…"


def from_status(status: status_pb2.Status) -> FleetError | None:
    """The FleetError that `status` carries, or None when it isn't one of this catalogue."""
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    retry_after: float | None = None
    for detail in status.details:
        detail.Unpack(info)
        detail.Unpack(bad)
        if detail.Unpack(retry):
            retry_after = retry.retry_delay.ToNanoseconds() / 1e9
    if info.domain != DOMAIN or info.reason not in reasons():
        return None
    violations = [FieldViolation(v.field, v.description) for v in bad.field_violations]
    return FleetError(info.reason, status.message, info.metadata, violations=violations, retry_after=retry_after)


def from_rpc_error(error: grpc.aio.AioRpcError) -> FleetError:
    """What a failed call means, as the error that the server raised.

    A failure that the server's error funnel didn't write, such as a lost connection, gets the general reason of its
    code and a fixed message, because gRPC's own text names addresses.
    """
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            found = _from_bytes(value)
            if found is not None:
                return found
    number: int = error.code().value[0]
    reason = _REASON_OF_CODE.get(number, "INTERNAL")
    return FleetError(reason, _MESSAGE_OF_REASON[reason])


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raises what a call inside fails with as FleetError.

    Raises:
        FleetError: instead of any `grpc.aio.AioRpcError`.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from error


def _from_bytes(value: bytes) -> FleetError | None:
    try:
        return from_status(status_pb2.Status.FromString(value))
    except DecodeError:
        return None
