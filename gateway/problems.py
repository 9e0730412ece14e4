"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from google.rpc import code_pb2
from starlette.exceptions import HTTPException

from gateway.documents.problem import FieldProblem, Problem
from services.common.errors import FieldViolation, FleetError
from services.common.text import clean

MEDIA_TYPE = "application/problem+json"

STATUS_BY_CODE = {
    code_pb2.CANCELLED: 499,
    code_pb2.UNKNOWN: 500,
    code_pb2.INVALID_ARGUMENT: 422,
    code_pb2.DEADLINE_EXCEEDED: 504,
    code_pb2.NOT_FOUND: 404,
    code_pb2.ALREADY_EXISTS: 409,
    code_pb2.PERMISSION_DENIED: 403,
    code_pb2.RESOURCE_EXHAUSTED: 429,
    code_pb2.FAILED_PRECONDITION: 409,
    code_pb2.ABORTED: 409,
    code_pb2.OUT_OF_RANGE: 416,
    code_pb2.UNIMPLEMENTED: 501,
    code_pb2.INTERNAL: 500,
    code_pb2.UNAVAILABLE: 503,
    code_pb2.DATA_LOSS: 500,
    code_pb2.UNAUTHENTICATED: 401,
}
"""HTTP status of each google.rpc.Code."""

UNAVAILABLE_RETRY_SECONDS = 2
"""`Retry-After` of a 503 whose cause gave none: services that restart are back about then."""

MAX_FIELDS = 20
"""Most fields that one problem document names."""

_MAX_TEXT = 500
_TITLES = {413: "Content Too Large", 416: "Range Not Satisfiable", 422: "Unprocessable Content", 499: "Client Closed"}
_HTTP_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "CONTENT_TOO_LARGE", 416: "RANGE_NOT_SATISFIABLE"}


def status_of(error: FleetError) -> int:
    """The HTTP status of an error."""
    return STATUS_BY_CODE.get(error.code, 500)


def problem(error: FleetError, request: Request) -> Response:
    """The problem document of an error.

    Its `code` is the ErrorInfo reason; `errors` names the fields; a running Turn that is in the way is in `Location`.
    """
    status = status_of(error)
    headers: dict[str, str] = {}
    if error.retry_after is not None or status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after or UNAVAILABLE_RETRY_SECONDS)))
    if error.reason == "UNAUTHENTICATED":
        headers["WWW-Authenticate"] = "Bearer"
    running = error.metadata.get("turn", "")
    if error.reason == "TURN_IN_PROGRESS" and running:
        headers["Location"] = f"/v1/turns/{running.rpartition('/')[2]}"
    document = Problem(
        title=_title(status),
        status=status,
        detail=_text(error.message),
        code=error.reason,
        metadata={_text(key): _text(value) for key, value in error.metadata.items()},
        errors=[
            FieldProblem(field=_text(v.field), message=_text(v.description)) for v in error.violations[:MAX_FIELDS]
        ],
        request_id=_request_id(request),
    )
    return _response(document, headers)


def http_problem(error: HTTPException, request: Request, headers: Mapping[str, str] | None = None) -> Response:
    """The problem document of what HTTP itself refuses: paths, methods, bodies, ranges."""
    status = error.status_code
    title = _title(status)
    plain = error.detail in {"", HTTPStatus(status).phrase}
    document = Problem(
        title=title,
        status=status,
        detail=_text(f"{request.method} {request.url.path}: {title.lower()}" if plain else error.detail),
        code=_HTTP_CODES.get(status, "INVALID_ARGUMENT"),
        request_id=_request_id(request),
    )
    return _response(document, {**(error.headers or {}), **(headers or {})})


def invalid_request(error: RequestValidationError) -> FleetError:
    """What a request's path, query, headers or body break, field by field."""
    violations = [_violation(item) for item in error.errors()[:MAX_FIELDS]]
    fields = ", ".join(violation.field for violation in violations)
    return FleetError("INVALID_ARGUMENT", f"the request is invalid: {fields}", violations=violations)


def _violation(item: Mapping[str, Any]) -> FieldViolation:
    where, *parts = (str(part) for part in item["loc"] if part not in {"", "[key]"})
    if item["type"] == "json_invalid":
        return FieldViolation("body", f"is not JSON: {item['ctx']['error']}")
    if where == "body" and not parts and item["type"] != "string_unicode":
        return FieldViolation("body", "must be a JSON object that is sent as application/json")
    if where == "header":
        parts = [part.title() for part in parts]
    return FieldViolation(".".join(parts) or where, item["msg"])


def _field(violation: FieldViolation) -> FieldProblem:
    return FieldProblem(field=_text(violation.field), message=_text(violation.description))


def _response(document: Problem, headers: Mapping[str, str]) -> Response:
    return Response(document.model_dump_json(), document.status, headers, MEDIA_TYPE)


def _title(status: int) -> str:
    return _TITLES.get(status) or HTTPStatus(status).phrase


def _text(text: str) -> str:
    short = clean(text)
    return short if len(short) <= _MAX_TEXT else f"{short[:_MAX_TEXT]}…"


def _request_id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))
