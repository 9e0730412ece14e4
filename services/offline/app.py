"""The HTTP surface: chat completions, the model list and a health page."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable

import anyio
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from services.offline.completion import complete
from services.offline.problems import Problem, invalid
from services.offline.respond import respond
from services.offline.wire import MAX_BODY_BYTES, MODEL_ID, find_problem, read_request

WORKERS = 8
"""Replies computed at one moment; further requests wait."""


def build_app(now: Callable[[], float] = time.time) -> FastAPI:
    """The ASGI application.

    Args:
        now: Source of Unix time in seconds, for the ``created`` field.
    """
    app = FastAPI(title="Fleet offline model", docs_url=None, redoc_url=None, openapi_url=None)
    limiter = anyio.CapacityLimiter(WORKERS)

    @app.exception_handler(HTTPException)
    async def refuse_route(_: Request, error: HTTPException) -> Response:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
        return refusal(Problem(error.status_code, str(error.detail), None, code))

    @app.exception_handler(Exception)
    async def refuse_fault(_: Request, __: Exception) -> Response:
        return refusal(Problem(500, "The offline model failed on this request.", None, "internal_error"))

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "model": MODEL_ID}

    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        return {"object": "list", "data": [{"id": MODEL_ID, "object": "model", "created": 0, "owned_by": "fleet"}]}

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = await read_json(request)
        if isinstance(body, Problem):
            return refusal(body)
        problem = find_problem(body)
        if problem is not None:
            return refusal(problem)
        asked = read_request(body)
        reply = await anyio.to_thread.run_sync(functools.partial(respond, asked.messages), limiter=limiter)
        done = complete(asked, reply, int(now()))
        if asked.stream:
            return StreamingResponse(done.chunks(include_usage=asked.include_usage), media_type="text/event-stream")
        return JSONResponse(done.body())

    return app


async def read_json(request: Request) -> Problem | dict[str, object]:
    """The decoded body, or why it can't be read; never holds more than the limit in memory."""
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > MAX_BODY_BYTES:
            message = f"The request body is larger than {MAX_BODY_BYTES} bytes."
            return Problem(413, message, None, "request_too_large")
    try:
        body = json.loads(bytes(raw))
    except (ValueError, RecursionError):
        return invalid(None, "The request body is not valid JSON.", "invalid_json")
    return body if isinstance(body, dict) else invalid(None, "The request body must be a JSON object.", "invalid_json")


def refusal(problem: Problem) -> JSONResponse:
    """The HTTP response of a problem."""
    return JSONResponse(problem.body(), status_code=problem.status)
