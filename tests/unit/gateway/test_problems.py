from __future__ import annotations

import json
from typing import Any

import pytest
from google.rpc import code_pb2
from starlette.requests import Request

from gateway.fields import in_rest
from gateway.problems import MAX_FIELDS, STATUS_BY_CODE, problem
from services.common.errors import FieldViolation, FleetError, code_of, reasons

REQUEST = Request({"type": "http", "method": "GET", "path": "/", "headers": [], "state": {"request_id": "r1"}})


def _document(error: FleetError) -> tuple[dict[str, Any], dict[str, str]]:
    response = problem(error, REQUEST)
    document = json.loads(bytes(response.body))
    assert (response.status_code, response.media_type) == (document["status"], "application/problem+json")
    return document, dict(response.headers)


def test_every_code_has_a_status() -> None:
    assert set(STATUS_BY_CODE) == set(code_pb2.Code.values()) - {code_pb2.OK}


@pytest.mark.parametrize("reason", reasons())
def test_every_reason_becomes_a_problem(reason: str) -> None:
    document, headers = _document(FleetError(reason, "what happened"))
    assert (document["code"], document["detail"], document["request_id"]) == (reason, "what happened", "r1")
    assert document["status"] == STATUS_BY_CODE[code_of(reason)]
    assert ("retry-after" in headers) is (document["status"] == 503)


@pytest.mark.parametrize(("seconds", "sent"), [(0.1, "1"), (1.0, "1"), (1.2, "2"), (30.0, "30")])
def test_retry_after_is_whole_seconds(seconds: float, sent: str) -> None:
    _, headers = _document(FleetError("CAPACITY_EXHAUSTED", "full", retry_after=seconds))
    assert headers["retry-after"] == sent


def test_running_turn_is_in_the_location() -> None:
    error = FleetError("TURN_IN_PROGRESS", "busy", {"turn": "sessions/s/turns/t"})
    document, headers = _document(error)
    assert (headers["location"], document["metadata"]) == ("/v1/turns/t", {"turn": "sessions/s/turns/t"})


def test_credentials_are_asked_for() -> None:
    assert _document(FleetError("UNAUTHENTICATED", "who?"))[1]["www-authenticate"] == "Bearer"


def test_documents_are_bounded_and_valid_text() -> None:
    many = [FieldViolation("\ud800" * 5000, "x" * 5000) for _ in range(1000)]
    document, _ = _document(FleetError("INVALID_ARGUMENT", "\udfff", {"key": "\ud800"}, violations=many))
    assert len(document["errors"]) == MAX_FIELDS
    assert len(json.dumps(document)) < 100_000


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("request_id", "Idempotency-Key"),
        ("session.title", "title"),
        ("metadata.filename", "filename"),
        ("text", "text"),
    ],
)
def test_fields_have_the_names_of_the_rest_request(name: str, known: str) -> None:
    error = FleetError("INVALID_ARGUMENT", "no", violations=[FieldViolation(name, "rule")], retry_after=2.0)
    changed = in_rest(error)
    assert (changed.violations[0].field, changed.reason, changed.retry_after) == (known, "INVALID_ARGUMENT", 2.0)
