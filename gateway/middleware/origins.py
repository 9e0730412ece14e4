"""Keeps other web sites' pages from using a gateway that needs no key.

A page of any site can send requests to a loopback address (and, by DNS rebinding, read the answers), so hosts other
than loopback ones and cross-origin requests are refused.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from config.rules import is_loopback
from gateway.problems import problem
from services.common.errors import FleetError


class SameOriginMiddleware:
    """Refuses requests whose `Host` isn't a loopback one, or whose `Origin` is another than their `Host`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with a problem document."""
        if scope["type"] == "http":
            request = Request(scope)
            if not _allowed(request.headers.get("host", ""), request.headers.get("origin")):
                error = FleetError("PERMISSION_DENIED", "this gateway only serves its own loopback origin")
                await problem(error, request)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _allowed(host: str, origin: str | None) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname
        place = host if origin is None else urlsplit(origin).netloc
    except ValueError:
        return False
    return name is not None and is_loopback(name) and place == host
