"""The HTTP listener: a bound socket served by uvicorn inside the caller's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the process that embeds it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers."""
        yield


class Listener:
    """Serves one application on one socket until it is stopped."""

    def __init__(self, app: FastAPI, bound: socket.socket, draining: asyncio.Event) -> None:
        self._socket = bound
        self._draining = draining
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", server_header=False, timeout_keep_alive=30
        )
        self._config = config
        self._server = _EmbeddedServer(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Accept connections from here on."""
        self._serving = asyncio.create_task(self._server.serve([self._socket]), name="gateway-http")

    async def stop(self, grace: float) -> None:
        """End open event streams, let other requests finish within `grace` seconds, and close the socket."""
        self._draining.set()
        self._config.timeout_graceful_shutdown = max(1, round(grace))
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        self._socket.close()


def bind_socket(host: str, port: int) -> socket.socket:
    """A TCP socket bound to `host` and `port`, 0 for a free one.

    Raises:
        OSError: the address can't be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(2048)
    except OSError:
        bound.close()
        raise
    return bound
