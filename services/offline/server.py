"""The offline model's HTTP server with an owner that starts and stops it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
from collections.abc import Iterator

import uvicorn

from config.problem import ConfigError, Problem
from services.offline.app import build_app


class OfflineService:
    """Serves the offline model on one TCP address.

    Args:
        host: Address to bind.
        port: Port to bind; 0 lets the system choose.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Bind and serve; returns the base URL for clients, ``http://host:port/v1``.

        Raises:
            ConfigError: The address can't be bound.
        """
        listener = self._bind()
        config = uvicorn.Config(build_app(), log_config=None, access_log=False, lifespan="off")
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name="offline-model")
        ready = asyncio.create_task(self._server.ready.wait())
        await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._task
        port = listener.getsockname()[1]
        shown = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{shown}:{port}/v1"

    async def stop(self, grace: float = 0.0) -> None:
        """Stop serving and wait until the server has ended; may be called more than once.

        Args:
            grace: Seconds that open replies get to end by themselves.
        """
        if self._server is None or self._task is None:
            return
        self._server.config.timeout_graceful_shutdown = max(1, math.ceil(grace))
        self._server.should_exit = True
        await self._task
        self._server, self._task = None, None

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            return socket.create_server((self._host, self._port), family=family, backlog=128)
        except OSError as error:
            what = f"the offline model can't listen at {self._host}:{self._port}: {os.strerror(error.errno or 0)}"
            raise ConfigError([Problem("services.offline.address", what)]) from error


class _Server(uvicorn.Server):
    """A uvicorn server that reports readiness and leaves signals to its owner."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
