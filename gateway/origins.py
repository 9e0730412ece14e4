"""Keeps other web sites' pages from using a gateway that needs no key.

A page of any site can send requests to a loopback address (and, by DNS rebinding, read the answers), so hosts other
than the gateway's own and cross-origin requests are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.problems import problem
from services.common.errors import FleetError

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
"""Host names that only this machine answers to."""


class SameOriginMiddleware:
    """Refuses requests whose `Host` isn't one of `hosts`, or whose `Origin` is another one."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOOPBACK_HOSTS) -> None:
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with a problem document."""
        if scope["type"] == "http":
            request = Request(scope)
            if not self._allowed(request):
                error = FleetError("PERMISSION_DENIED", "this gateway only serves its own loopback origin")
                await problem(error, request)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _allowed(self, request: Request) -> bool:
        host = request.headers.get("host", "")
        if urlsplit(f"//{host}").hostname not in self._hosts:
            return False
        origin = request.headers.get("origin")
        return origin is None or urlsplit(origin).netloc == host
