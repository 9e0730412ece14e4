"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from google.rpc import code_pb2
from grpc.aio import AioRpcError
from starlette.exceptions import HTTPException

from services.common.errors import FieldViolation, FleetError
from services.common.rpc_status import from_rpc_error

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

_TITLES = {499: "Client Closed Request"}


def status_of(error: FleetError) -> int:
    """The HTTP status of an error."""
    return STATUS_BY_CODE.get(error.code, 500)


def problem(error: FleetError, request: Request) -> Response:
    """The problem document of an error.

    Its `code` is the ErrorInfo reason; `errors` names the fields; a running Turn that is in the way is in `Location`.
    """
    status = status_of(error)
    body = {
        "type": "about:blank",
        "title": _TITLES.get(status) or HTTPStatus(status).phrase,
        "status": status,
        "detail": error.message,
        "code": error.reason,
        "metadata": dict(error.metadata),
        "errors": [{"field": violation.field, "message": violation.description} for violation in error.violations],
        "request_id": getattr(request.state, "request_id", ""),
    }
    headers: dict[str, str] = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if error.reason == "UNAUTHENTICATED":
        headers["WWW-Authenticate"] = "Bearer"
    running = error.metadata.get("turn", "")
    if error.reason == "TURN_IN_PROGRESS" and running:
        headers["Location"] = f"/v1/turns/{running.rpartition('/')[2]}"
    return JSONResponse(body, status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Make every failure of `app` a problem document."""

    @app.exception_handler(FleetError)
    async def on_fleet_error(request: Request, error: FleetError) -> Response:
        return problem(error, request)

    @app.exception_handler(AioRpcError)
    async def on_rpc_error(request: Request, error: AioRpcError) -> Response:
        return problem(from_rpc_error(error), request)

    @app.exception_handler(RequestValidationError)
    async def on_invalid_request(request: Request, error: RequestValidationError) -> Response:
        return problem(_invalid(error), request)

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        return _http_problem(error, request)

    @app.exception_handler(Exception)
    async def on_fault(request: Request, _error: Exception) -> Response:
        return problem(FleetError("INTERNAL", "the gateway failed; its log has the cause"), request)


def _invalid(error: RequestValidationError) -> FleetError:
    violations = []
    for item in error.errors():
        place = [str(part) for part in item["loc"] if part not in {"body", "query", "path", "header"}]
        violations.append(FieldViolation(".".join(place) or str(item["loc"][0]), str(item["msg"])))
    fields = ", ".join(violation.field for violation in violations)
    return FleetError("INVALID_ARGUMENT", f"the request is invalid: {fields}", violations=violations)


def _http_problem(error: HTTPException, request: Request) -> Response:
    """Routing failures (no such path, wrong method), which have no reason of the catalogue."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(error.status_code).phrase,
        "status": error.status_code,
        "detail": f"{request.method} {request.url.path}: {HTTPStatus(error.status_code).phrase.lower()}",
        "code": HTTPStatus(error.status_code).name,
        "metadata": {},
        "errors": [],
        "request_id": getattr(request.state, "request_id", ""),
    }
    return JSONResponse(body, error.status_code, error.headers, MEDIA_TYPE)
