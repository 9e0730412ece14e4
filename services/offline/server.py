"""The offline model's HTTP server with an owner that starts and stops it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from services.offline.app import build_app

STOP_SECONDS = 5
"""Time that open replies get when the server stops."""


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
            OSError: The address can't be bound.
        """
        listener = socket.create_server((self._host, self._port), family=_family(self._host), backlog=128)
        config = uvicorn.Config(
            build_app(), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=STOP_SECONDS
        )
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

    async def stop(self) -> None:
        """Stop serving and wait until the server has ended; may be called more than once."""
        if self._server is None or self._task is None:
            return
        self._server.should_exit = True
        await self._task
        self._server, self._task = None, None

    async def wait(self) -> None:
        """Wait until the server ends."""
        if self._task is not None:
            await asyncio.shield(self._task)


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


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
