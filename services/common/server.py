"""The gRPC server of every service: interceptors, health, reflection, limits and an orderly end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import grpc
from grpc_reflection.v1alpha import reflection

from config.policy import Policy
from config.problem import ConfigError, Problem
from config.rules import is_loopback
from config.server import ComponentName
from services.common.health import Health
from services.common.interceptors.chain import PUBLIC_SERVICES, InterceptorChain, Layer
from services.common.interceptors.context import RequestContextLayer
from services.common.interceptors.deadline import DeadlineLayer
from services.common.interceptors.exceptions import ExceptionsLayer
from services.common.interceptors.identity import IdentityLayer
from services.common.interceptors.metrics import MetricsLayer
from services.common.interceptors.running import RunningLayer
from services.common.interceptors.telemetry import TelemetryLayer
from services.common.interceptors.validation import ValidationLayer
from services.common.logging import get_logger
from services.common.tokens import TokenVerifier

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The largest message, in both directions."""

AddServicers = Callable[[grpc.aio.Server], None]
"""Adds a service's servicers to a server, with the generated `add_…_to_server` functions."""

_MAX_CONNECTION_AGE_MS = 5 * 60 * 1_000
_CANCELLED_SECONDS = 5.0
_LOG = get_logger(__name__)


class FleetServer:
    """A gRPC server that is made by `build_server`, started once and stopped once.

    Attributes:
        services: full names of the services that it serves, without health and reflection.
    """

    def __init__(
        self,
        server: grpc.aio.Server,
        address: str,
        key: str,
        add_servicers: AddServicers,
        credentials: grpc.ServerCredentials | None,
        running: RunningLayer,
    ) -> None:
        self._server = server
        self._running = running
        self._address = address
        self._key = key
        self._credentials = credentials
        recorder = _Recorder(server)
        add_servicers(cast(grpc.aio.Server, recorder))
        self.services: tuple[str, ...] = tuple(recorder.names)
        self._health = Health(self.services)
        self._health.register(server)
        reflection.enable_server_reflection((*self.services, *PUBLIC_SERVICES), server)
        self._started = False

    async def start(self, *, ready: bool = True) -> int:
        """Listen and serve.

        Args:
            ready: whether health says SERVING at once; else `set_ready` does later.

        Returns:
            The port that it listens on.

        Raises:
            ConfigError: the address can't be used, for one because another process listens there.
        """
        try:
            if self._credentials is None:
                port = self._server.add_insecure_port(self._address)
            else:
                port = self._server.add_secure_port(self._address, self._credentials)
        except RuntimeError as error:
            message = f"can't listen on {self._address}; it is in use or not an address of this machine"
            raise ConfigError([Problem(self._key, message)]) from error
        await self._health.started()
        await self._server.start()
        self._started = True
        await self._health.set_ready(ready)
        return port

    async def set_ready(self, ready: bool) -> None:
        """Say by the health service whether calls are wanted; they are answered either way."""
        await self._health.set_ready(ready)

    async def stop(self, grace: float) -> None:
        """Say NOT_SERVING, take no further call, give running ones `grace` seconds, then cancel them.

        Returns when the last handler has ended; one that ignores its cancellation is left behind with a warning.
        """
        if self._started:
            await self._health.set_ready(False)
        await self._server.stop(grace)
        if not await self._running.wait_idle(_CANCELLED_SECONDS):
            _LOG.warning("a handler did not end after its cancellation", address=self._address)

    async def wait(self) -> None:
        """Return when the server has stopped."""
        await self._server.wait_for_termination()


def build_server(
    policy: Policy,
    name: ComponentName,
    add_servicers: AddServicers,
    verifier: TokenVerifier,
    *,
    extra_layers: Sequence[Layer] = (),
) -> FleetServer:
    """A server for component `name` that listens on `policy.bind_address(name)` once it is started.

    Args:
        policy: where to listen, who may call without a token, TLS.
        name: the component.
        add_servicers: adds its servicers.
        verifier: verifies the callers' tokens.
        extra_layers: further layers between validation and the handlers.

    Raises:
        ConfigError: the TLS files can't be read, or a listener without authentication isn't on loopback.
    """
    address = policy.bind_address(name)
    anonymous = policy.auth.mode == "loopback"
    loopback = is_loopback(address.rpartition(":")[0])
    if anonymous and not loopback:
        raise ConfigError([Problem("server.host", 'must be a loopback address when auth.mode is "loopback"')])
    running = RunningLayer()
    layers: list[Layer] = [
        running,
        RequestContextLayer(),
        TelemetryLayer(),
        MetricsLayer(),
        ExceptionsLayer(),
        IdentityLayer(verifier, allow_anonymous=anonymous),
        DeadlineLayer(),
        ValidationLayer(),
        *extra_layers,
    ]
    server = grpc.aio.server(interceptors=[InterceptorChain(layers)], options=_options(balanced=not loopback))
    return FleetServer(server, address, f"services.{name}.address", add_servicers, _credentials(policy), running)


def _options(*, balanced: bool) -> list[tuple[str, int]]:
    options = [
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        # Without this, two processes may listen on one port and each gets some of the calls.
        ("grpc.so_reuseport", 0),
    ]
    if balanced:
        # Callers reconnect, and so find replicas that were added since.
        options.append(("grpc.max_connection_age_ms", _MAX_CONNECTION_AGE_MS))
    return options


def _credentials(policy: Policy) -> grpc.ServerCredentials | None:
    if not policy.server.tls_cert_file:
        return None
    chain = _pem("server.tls_cert_file", policy.server.tls_cert_file)
    key = _pem("server.tls_key_file", policy.server.tls_key_file)
    return grpc.ssl_server_credentials([(key, chain)])


def _pem(key: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError([Problem(key, f"can't be read: {error.strerror}")]) from error


class _Recorder:
    """Passes handlers on to a server and keeps the names of their services."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server
        self.names: list[str] = []

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        handlers = tuple(generic_rpc_handlers)
        for handler in handlers:
            if isinstance(handler, grpc.ServiceRpcHandler):
                self.names.append(handler.service_name())
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self._server.add_registered_method_handlers(service, handlers)
