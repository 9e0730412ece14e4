"""Every error reason crosses the wire unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import grpc
import pytest
from fleet.common.v1 import error_reason_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from services.common.errors import DOMAIN, FieldViolation, FleetError, reasons
from services.common.rpc_status import DETAILS_KEY, from_rpc_error, from_status, to_status

PROTO = Path(__file__).parents[2] / "protos" / "fleet" / "common" / "v1" / "error_reason.proto"


def over_the_wire(error: FleetError) -> FleetError:
    status = to_status(error)
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    trailing = grpc.aio.Metadata((DETAILS_KEY, status.SerializeToString()))
    return from_rpc_error(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details=status.message))


@pytest.mark.parametrize("reason", reasons())
def test_every_reason_survives(reason: str) -> None:
    sent = FleetError(
        reason,
        f"A message of {reason}.",
        {"key": "value", "unicode": "é"},
        violations=[FieldViolation("text", "must not be blank"), FieldViolation("attachments[1]", "is unknown")],
        retry_after=2.5,
    )
    got = over_the_wire(sent)
    assert (got.reason, got.code, got.message) == (sent.reason, sent.code, sent.message)
    assert dict(got.metadata) == dict(sent.metadata)
    assert got.violations == sent.violations
    assert got.retry_after == sent.retry_after


def test_a_large_error_is_bounded_and_keeps_its_reason() -> None:
    violations = [FieldViolation(f"attachments[{number}]", "é" * 2_000) for number in range(500)]
    metadata = {f"child-{number}": "x" * 2_000 for number in range(100)}
    status = to_status(FleetError("CHILDREN_UNRESOLVED", "é" * 5_000, metadata, violations=violations, retry_after=1))
    assert status.ByteSize() <= 4_500
    error = from_status(status)
    assert error is not None
    assert (error.reason, len(error.message), error.retry_after) == ("CHILDREN_UNRESOLVED", 600, 1.0)
    assert error.violations[0].field == "attachments[0]"


def test_surrogates_in_an_error_do_no_harm() -> None:
    sent = FleetError("OUTPUT_INVALID", "a\ud800", {"k": "\udfff"}, violations=[FieldViolation("f\ud800", "\ud800")])
    assert over_the_wire(sent).message == "a\ufffd"


@pytest.mark.parametrize("reason", reasons())
def test_a_status_has_exactly_one_error_info(reason: str) -> None:
    status = to_status(FleetError(reason, "m"))
    assert len(status.details) == 1
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.domain, info.reason, status.code) == (DOMAIN, reason, FleetError(reason, "m").code)
    assert status.code != code_pb2.OK


def test_every_reason_has_a_code_and_an_example() -> None:
    assert len(reasons()) == len(error_reason_pb2.ErrorReason.values()) - 1
    source = PROTO.read_text(encoding="utf-8")
    for match in re.finditer(r"((?:  //[^\n]*\n)+)  ERROR_REASON_(\w+) = (\d+)", source):
        comment, name, number = match.groups()
        assert number == "0" or "Example:" in comment, name


def test_reasons_by_number_and_by_both_names() -> None:
    number = error_reason_pb2.ERROR_REASON_TURN_IN_PROGRESS
    spellings: list[int | str] = [number, "TURN_IN_PROGRESS", "ERROR_REASON_TURN_IN_PROGRESS"]
    assert {FleetError(spelling, "m").reason for spelling in spellings} == {"TURN_IN_PROGRESS"}  # type: ignore[arg-type]
    for unknown in ("NO_SUCH_REASON", "UNSPECIFIED", 0, 99_999):
        with pytest.raises(ValueError):
            FleetError(unknown, "m")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
        (grpc.StatusCode.CANCELLED, "CANCELLED"),
        (grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "CAPACITY_EXHAUSTED"),
        (grpc.StatusCode.UNKNOWN, "INTERNAL"),
        (grpc.StatusCode.DATA_LOSS, "INTERNAL"),
        (grpc.StatusCode.NOT_FOUND, "INTERNAL"),
    ],
)
def test_errors_that_no_service_wrote_have_fixed_texts(code: grpc.StatusCode, reason: str) -> None:
    raw = grpc.aio.AioRpcError(code, None, None, details="ipv4:10.0.0.1:50051: connection refused")
    error = from_rpc_error(raw)
    assert error.reason == reason
    assert "10.0.0.1" not in error.message


@pytest.mark.parametrize("details", [b"\xff\xff", b"", status_pb2.Status(code=5).SerializeToString()])
def test_details_that_are_no_errors_of_ours(details: bytes) -> None:
    raw = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, None, grpc.aio.Metadata((DETAILS_KEY, details)))
    assert from_rpc_error(raw).reason == "UNAVAILABLE"


def test_a_foreign_domain_is_not_ours() -> None:
    status = to_status(FleetError("NOT_OWNER", "m"))
    info = error_details_pb2.ErrorInfo(reason="NOT_OWNER", domain="elsewhere.example")
    status.details[0].Pack(info)
    assert from_status(status) is None
