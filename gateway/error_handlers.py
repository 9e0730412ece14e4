"""Makes every expected failure of a route a problem document."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from grpc.aio import AioRpcError
from starlette.exceptions import HTTPException

from gateway.fields import in_rest
from gateway.methods import allowed_methods
from gateway.problems import http_problem, invalid_request, problem
from gateway.routes import ROUTERS
from services.common.errors import FieldViolation, FleetError
from services.common.rpc_status import from_rpc_error


def install(app: FastAPI) -> None:
    """Handle the errors of `app`; what is left is a fault, which the access middleware answers for."""

    @app.exception_handler(FleetError)
    async def on_fleet_error(request: Request, error: FleetError) -> Response:
        return problem(error, request)

    @app.exception_handler(AioRpcError)
    async def on_rpc_error(request: Request, error: AioRpcError) -> Response:
        return problem(in_rest(from_rpc_error(error)), request)

    @app.exception_handler(RequestValidationError)
    async def on_invalid_request(request: Request, error: RequestValidationError) -> Response:
        return problem(invalid_request(error), request)

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            return _method_not_allowed(request, error)
        if error.status_code == 400:
            violation = FieldViolation("body", "can't be read as JSON")
            return problem(FleetError("INVALID_ARGUMENT", "the body can't be read", violations=[violation]), request)
        return http_problem(error, request)


def _method_not_allowed(request: Request, error: HTTPException) -> Response:
    allow = {"Allow": ", ".join(allowed_methods(ROUTERS, request.scope))}
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=allow)
    return http_problem(error, request, allow)
