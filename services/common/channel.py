"""The gRPC channel of every client: service config, bearer token, request id, trace context."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import grpc
from opentelemetry import propagate

from config.policy import Policy
from config.problem import ConfigError, Problem
from services.common.interceptors.context import REQUEST_ID_KEY
from services.common.interceptors.identity import AUTHORIZATION_KEY
from services.common.request_context import current
from services.common.server import MAX_MESSAGE_BYTES
from services.common.service_config import service_config


class TokenSource(Protocol):
    """Gives the bearer token of the next call."""

    def token(self) -> str:
        """A token that is good for the call that is about to begin."""
        ...


def open_channel(
    address: str,
    *,
    service: str,
    tokens: TokenSource | None,
    credentials: grpc.ChannelCredentials | None = None,
) -> grpc.aio.Channel:
    """A channel to `service`, for the generated stubs; close it, or use it as an async context manager.

    Every call carries the current request id, the W3C trace context and a token, beside the metadata it was given;
    an `authorization` among that is kept. It connects when first used.

    Args:
        address: `host:port`, or `dns:///host:port` to balance over every address of the name.
        service: name of the service config: session, sandbox or recursion.
        tokens: where bearer tokens come from; None for none.
        credentials: TLS; see `channel_credentials`. Plain text when None.

    Raises:
        FileNotFoundError: there is no service config of that name.
    """
    options: list[tuple[str, Any]] = [
        ("grpc.service_config", service_config(service)),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        # Services meet on private names and loopback; a proxy of the environment has no business there.
        ("grpc.enable_http_proxy", 0),
        # A server that restarts is found again within this time.
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # Connections of its own: a fresh channel to an address where a former server went away must not begin in that
        # server's backoff.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if credentials is None:
        inner = grpc.aio.insecure_channel(address, options)
    else:
        inner = grpc.aio.secure_channel(address, credentials, options)
    return FleetChannel(inner, tokens)


def channel_credentials(policy: Policy) -> grpc.ChannelCredentials | None:
    """TLS credentials where `server.tls_ca_file` is set, else None.

    Raises:
        ConfigError: the file can't be read.
    """
    if not policy.server.tls_ca_file:
        return None
    try:
        roots = Path(policy.server.tls_ca_file).read_bytes()
    except OSError as error:
        raise ConfigError([Problem("server.tls_ca_file", f"can't be read: {error.strerror}")]) from error
    return grpc.ssl_channel_credentials(roots)


class FleetChannel(grpc.aio.Channel):
    """A channel that adds metadata to every call and leaves the calls themselves as gRPC made them.

    gRPC's client interceptors would replace the call objects of streams by slower ones with fewer abilities.
    """

    def __init__(self, inner: grpc.aio.Channel, tokens: TokenSource | None) -> None:
        self._inner = inner
        self._tokens = tokens

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A callable of one request and one response."""
        return _WithMetadata(self._inner.unary_unary(method, *args, **kwargs), self._tokens)

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A callable of one request and a stream of responses."""
        return _WithMetadata(self._inner.unary_stream(method, *args, **kwargs), self._tokens)

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A callable of a stream of requests and one response."""
        return _WithMetadata(self._inner.stream_unary(method, *args, **kwargs), self._tokens)

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """A callable of two streams."""
        return _WithMetadata(self._inner.stream_stream(method, *args, **kwargs), self._tokens)

    async def close(self, grace: float | None = None) -> None:
        """Close the channel; running calls get `grace` seconds, then are cancelled."""
        await self._inner.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """The state of the connection."""
        return self._inner.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Return when the state is another."""
        await self._inner.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Return when the channel is connected."""
        await self._inner.channel_ready()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


class _WithMetadata:
    """A gRPC callable that adds this channel's metadata to each call."""

    def __init__(self, inner: Any, tokens: TokenSource | None) -> None:
        self._inner = inner
        self._tokens = tokens

    def __call__(self, *args: Any, metadata: Any = None, **kwargs: Any) -> Any:
        given = tuple(metadata or ())
        carrier: dict[str, str] = {REQUEST_ID_KEY: current().request_id}
        propagate.inject(carrier)
        present = {key for key, _ in given}
        if self._tokens is not None and AUTHORIZATION_KEY not in present:
            carrier[AUTHORIZATION_KEY] = f"Bearer {self._tokens.token()}"
        added = tuple((key, value) for key, value in carrier.items() if key not in present)
        return self._inner(*args, metadata=(*given, *added), **kwargs)
