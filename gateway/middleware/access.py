"""Logs and measures every request, and answers for faults."""

from __future__ import annotations

import time

from prometheus_client import Counter, Histogram
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.problems import problem
from services.common.errors import FleetError
from services.common.logging import get_logger

REQUESTS = Counter("gateway_http_requests", "HTTP requests answered.", ("method", "route", "status"))
SECONDS = Histogram("gateway_http_seconds", "Seconds from a request to the end of its answer.", ("method", "route"))

CLIENT_GONE = 499
"""Counted for a request whose client left before the answer began."""

_QUIET = ("/healthz", "/readyz", "/metrics", "/console")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LOG = get_logger(__name__)


class AccessMiddleware:
    """One log line and one measurement a request; a fault becomes a problem document that says nothing of its cause."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            # Nobody is left to answer.
            pass
        except Exception:
            _LOG.exception("request failed", method=scope["method"], path=scope["path"])
            if status:
                # The answer has begun and can't be taken back: the server cuts the connection.
                raise
            fault = FleetError("INTERNAL", "the gateway failed; its log has the cause under the request id")
            await problem(fault, Request(scope))(scope, receive, watched)
        finally:
            _record(scope, status or CLIENT_GONE, time.perf_counter() - began)


def _record(scope: Scope, status: int, seconds: float) -> None:
    method = scope["method"] if scope["method"] in _METHODS else "other"
    route = getattr(scope.get("route"), "path", "unmatched")
    REQUESTS.labels(method, route, str(status)).inc()
    SECONDS.labels(method, route).observe(seconds)
    log = _LOG.debug if scope["path"].startswith(_QUIET) else _LOG.info
    log("request", method=method, path=scope["path"], status=status, ms=round(seconds * 1000, 1))
