"""The gateway's composition root."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from config.policy import Policy
from config.problem import ConfigError, Problem
from gateway.app import create_app
from gateway.backends import Backends
from gateway.listener import Listener, bind_socket
from services.common.channel import open_channel


class GatewayService:
    """The gateway as a process part: binds, serves, drains."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._draining = asyncio.Event()
        self._backends: Backends | None = None
        self._listener: Listener | None = None

    async def start(self) -> str:
        """Serve, and return the base URL, such as `http://127.0.0.1:8080`.

        Raises:
            ConfigError: the address is in use, or isn't loopback although callers need no key.
        """
        host, port = self._policy.server.host, self._policy.server.ports.gateway
        require_loopback(host)
        bound = self._bind(host, port)
        channel = open_channel(self._policy.services.session.address, service="session", tokens=None)
        self._backends = Backends.over(channel)
        self._listener = Listener(create_app(self._backends, self._draining), bound, self._draining)
        await self._listener.start()
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{bound.getsockname()[1]}"

    async def stop(self, grace: float) -> None:
        """End streams cleanly, finish requests within `grace` seconds, and close."""
        if self._listener is not None:
            await self._listener.stop(grace)
        if self._backends is not None:
            await self._backends.channel.close()

    @staticmethod
    def _bind(host: str, port: int) -> socket.socket:
        try:
            return bind_socket(host, port)
        except OSError as error:
            what = f"can't listen on {host}:{port}: {error.strerror}"
            raise ConfigError([Problem("server.ports.gateway", what)]) from error


def require_loopback(host: str) -> None:
    """Refuse any listener that other machines could reach, as long as callers need no key.

    Raises:
        ConfigError: `host` is no loopback address.
    """
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback:
        what = f"is {host!r}: without API keys only a loopback address may be bound"
        raise ConfigError([Problem("server.host", what)])


def build_service(policy: Policy) -> GatewayService:
    """The gateway of `policy`; call it inside the event loop that serves."""
    return GatewayService(policy)
