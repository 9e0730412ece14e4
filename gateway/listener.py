"""The HTTP listener: a bound socket served by uvicorn inside the caller's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI

from gateway.sse import STREAM_MARK

STALLED_SECONDS = 1.0
"""How long an event stream whose client doesn't read may take to end at shutdown."""

_KEEP_ALIVE_SECONDS = 30


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the process that embeds it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers."""
        yield


class Listener:
    """Serves one application on one socket until it is stopped."""

    def __init__(
        self, app: FastAPI, bound: socket.socket, draining: asyncio.Event, certificate: tuple[str, str] | None = None
    ) -> None:
        """Args: what to serve, where, what says that streams are to end, and the TLS chain and key files."""
        self._socket = bound
        self._draining = draining
        chain, key = certificate or (None, None)
        self._config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            ssl_certfile=chain,
            ssl_keyfile=key,
        )
        self._server = _EmbeddedServer(self._config)
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Accept connections from here on.

        Raises:
            OSError: the TLS files can't be used.
        """
        self._config.load()
        self._serving = asyncio.create_task(self._server.serve([self._socket]), name="gateway-http")

    async def stop(self, grace: float) -> None:
        """End open event streams, let other requests finish within `grace` seconds, then cut what is left."""
        self._draining.set()
        self._config.timeout_graceful_shutdown = max(1, round(grace))
        self._server.should_exit = True
        if self._serving is not None:
            stalled = asyncio.create_task(self._cut_stalled())
            await self._serving
            stalled.cancel()
            await self._cut_all()
        self._socket.close()

    async def _cut_stalled(self) -> None:
        await asyncio.sleep(STALLED_SECONDS)
        for connection in self._connections():
            if connection.cycle is not None and STREAM_MARK in connection.cycle.scope["state"]:
                connection.transport.abort()

    async def _cut_all(self) -> None:
        for connection in self._connections():
            connection.transport.abort()
        if tasks := list(self._server.server_state.tasks):
            await asyncio.wait(tasks)

    def _connections(self) -> list[Any]:
        return list(self._server.server_state.connections)


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
