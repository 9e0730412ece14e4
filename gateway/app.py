"""The ASGI application: routes, problem documents, and the middleware every request passes."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

from fastapi import FastAPI

from gateway import problems
from gateway.backends import Backends
from gateway.origins import SameOriginMiddleware
from gateway.request_ids import RequestIdMiddleware
from gateway.routes import ROUTERS

DESCRIPTION = (
    "Sessions and Turns of a recursive language-model backend. A Turn's events stream as server-sent events and can be "
    "resumed with `Last-Event-ID`. Errors are `application/problem+json`."
)


def create_app(backends: Backends, draining: asyncio.Event) -> FastAPI:
    """The application over `backends`.

    Args:
        backends: stubs of the services; the caller closes their channel.
        draining: set at shutdown, so that open event streams end.
    """
    app = FastAPI(
        title="Fleet RLM",
        description=DESCRIPTION,
        version=version("fleet-rlm-services"),
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.state.backends = backends
    app.state.draining = draining
    for router in ROUTERS:
        app.include_router(router)
    problems.install(app)
    app.add_middleware(SameOriginMiddleware)
    app.add_middleware(RequestIdMiddleware)
    return app
