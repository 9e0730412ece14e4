"""The gateway's composition root."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack

from config.policy import Policy
from config.problem import ConfigError, Problem
from config.rules import is_loopback
from gateway.app import create_app
from gateway.backends import Backends
from gateway.event_streams import EventStreams
from gateway.listener import Listener, bind_socket
from gateway.sse import SILENCE_SECONDS
from services.common.channel import channel_credentials, open_channel


class GatewayService:
    """The gateway as a process part: `await start()` once, `await stop(grace)` once."""

    def __init__(self, policy: Policy, silence_seconds: float) -> None:
        self._policy = policy
        self._silence = silence_seconds
        self._stack = AsyncExitStack()
        self._grace = policy.server.drain_seconds

    async def start(self) -> str:
        """Serve, and return the base URL, such as `http://127.0.0.1:8080`.

        Raises:
            ConfigError: the address is in use, or isn't loopback although callers need no key; a TLS file is no good.
        """
        async with AsyncExitStack() as stack:
            url = await self._start(stack)
            self._stack = stack.pop_all()
        return url

    async def stop(self, grace: float) -> None:
        """End streams cleanly, finish requests within `grace` seconds, and close; does nothing before `start`."""
        self._grace = grace
        await self._stack.aclose()

    async def _start(self, stack: AsyncExitStack) -> str:
        server = self._policy.server
        require_loopback(server.host)
        bound = _bind(server.host, server.ports.gateway)
        stack.callback(bound.close)
        credentials = channel_credentials(self._policy)
        address = self._policy.services.session.address
        channel = open_channel(address, service="session", tokens=None, credentials=credentials)
        stack.push_async_callback(channel.close)
        backends = Backends.over(channel)
        draining = asyncio.Event()
        app = create_app(backends, EventStreams(backends.sessions, draining, self._silence))
        certificate = (server.tls_cert_file, server.tls_key_file) if server.tls_cert_file else None
        listener = Listener(app, bound, draining, certificate)
        _start_listener(listener)
        stack.push_async_callback(self._stop_listener, listener)
        shown = f"[{server.host}]" if ":" in server.host else server.host
        return f"{'https' if certificate else 'http'}://{shown}:{bound.getsockname()[1]}"

    async def _stop_listener(self, listener: Listener) -> None:
        await listener.stop(self._grace)


def require_loopback(host: str) -> None:
    """Refuse any listener that other machines could reach, as long as callers need no key.

    Raises:
        ConfigError: `host` is no loopback address.
    """
    if not is_loopback(host):
        what = f"is {host!r}: without API keys only a loopback address may be bound"
        raise ConfigError([Problem("server.host", what)])


def _bind(host: str, port: int) -> socket.socket:
    try:
        return bind_socket(host, port)
    except OSError as error:
        what = f"can't listen on {host}:{port}: {error.strerror}"
        raise ConfigError([Problem("server.ports.gateway", what)]) from error


def _start_listener(listener: Listener) -> None:
    try:
        listener.start()
    except OSError as error:
        what = f"and server.tls_key_file can't be used: {error.strerror or error}"
        raise ConfigError([Problem("server.tls_cert_file", what)]) from error


def build_service(policy: Policy, *, silence_seconds: float = SILENCE_SECONDS) -> GatewayService:
    """The gateway of `policy`; call it inside the event loop that serves.

    Args:
        policy: the effective policy; the session service's address is taken from it.
        silence_seconds: how long an event stream may be silent before it gets a comment.
    """
    return GatewayService(policy, silence_seconds)
