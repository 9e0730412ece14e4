"""Bounds request bodies that are held whole in memory. Uploads are streamed and have their own bound."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.problems import http_problem

MAX_BODY_BYTES = 2 * 1024 * 1024
"""The largest JSON body."""

STREAMED_PATHS = frozenset({"/v1/attachments"})
"""Paths whose bodies aren't held in memory."""


class BodyLimitMiddleware:
    """Answers 413 to a body that says it is too large, and to one that turns out to be.

    Starlette has such a middleware, whose answer is plain text instead of a problem document.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] in STREAMED_PATHS:
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            await http_problem(_too_large(), Request(scope))(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                raise _too_large()
            return message

        await self._app(scope, counted, send)


def _too_large() -> HTTPException:
    return HTTPException(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
