"""The ASGI application: routes, problem documents, and the middleware every request passes."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI

from gateway import error_handlers, openapi
from gateway.backends import Backends
from gateway.event_streams import EventStreams
from gateway.middleware.access import AccessMiddleware
from gateway.middleware.body_limits import BodyLimitMiddleware
from gateway.middleware.heads import HeadMiddleware
from gateway.middleware.origins import SameOriginMiddleware
from gateway.middleware.request_ids import RequestIdMiddleware
from gateway.middleware.security_headers import SecurityHeadersMiddleware
from gateway.routes import ROUTERS

MIDDLEWARE = (
    RequestIdMiddleware,
    SecurityHeadersMiddleware,
    AccessMiddleware,
    SameOriginMiddleware,
    BodyLimitMiddleware,
    HeadMiddleware,
)
"""What a request passes, the outermost first."""


def create_app(backends: Backends, streams: EventStreams) -> FastAPI:
    """The application over `backends`, whose channel the caller closes.

    Args:
        backends: stubs of the services.
        streams: makes event streams; when its `draining` is set, they end.
    """
    app = FastAPI(
        title="Fleet RLM",
        version=version("fleet-rlm-services"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.backends = backends
    app.state.streams = streams
    for router in ROUTERS:
        app.include_router(router)
    error_handlers.install(app)
    openapi.install(app)
    for middleware in reversed(MIDDLEWARE):
        app.add_middleware(middleware)
    return app
