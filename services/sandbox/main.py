"""The composition root of the sandbox broker."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import grpc
from fleet.sandbox.v1 import sandbox_service_pb2_grpc

from config.policy import Policy
from config.problem import ConfigError, Problem
from config.server import ComponentName
from services.common import keys, migrations
from services.common.blobs import BlobStore
from services.common.clock import Clock, SystemClock
from services.common.data_root import DataRootLock, prepare
from services.common.database import Database, database_url
from services.common.ids import new_id
from services.common.server import build_server
from services.sandbox.capacity import Capacity
from services.sandbox.files import FileService
from services.sandbox.lifecycle import Lifecycle
from services.sandbox.providers.base import Kind, SandboxProvider
from services.sandbox.providers.local.layout import LocalLimits
from services.sandbox.providers.local.provider import LocalProvider
from services.sandbox.service import SandboxService
from services.sandbox.servicer import SandboxServicer
from services.sandbox.store import LeaseStore
from services.sandbox.sweeper import Sweeper

NAME: ComponentName = "sandbox"
"""The component's name in the policy."""

_HOLDER_FILE = "sandbox_holder"
_WILDCARDS = ("0.0.0.0", "::", "[::]")  # noqa: S104 - compared with, not bound


def build_service(
    policy: Policy,
    *,
    env: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    provider: SandboxProvider | None = None,
) -> SandboxServer:
    """The sandbox broker, not yet started.

    Args:
        policy: the effective policy.
        env: the environment; the process's own by default.
        clock: the time; the machine's by default.
        provider: where sandboxes live; the policy's by default.

    Raises:
        ConfigError: the policy asks for a provider or an isolation that this release hasn't got.
    """
    environment = os.environ if env is None else env
    return SandboxServer(policy, environment, clock or SystemClock(), provider or build_provider(policy))


def build_provider(policy: Policy) -> SandboxProvider:
    """The provider that the policy names.

    Raises:
        ConfigError: this release hasn't got it.
    """
    if policy.sandbox.provider != "local":
        raise ConfigError([Problem("sandbox.provider", 'this release has only "local"; choose profile local')])
    local = policy.sandbox.local
    if local.isolation not in ("auto", "bubblewrap"):
        raise ConfigError([Problem("sandbox.local.isolation", 'this release isolates with "bubblewrap" only')])
    if policy.sandbox.root.network != "none":
        raise ConfigError([Problem("sandbox.root.network", 'local sandboxes have no network; set it to "none"')])
    limits = LocalLimits(local.cpu_seconds, local.memory_mb, local.processes, local.files_mb)
    return LocalProvider(policy.storage.root, limits)


class SandboxServer:
    """One replica of the broker: `await start()` once, `await stop(grace)` once."""

    def __init__(self, policy: Policy, env: Mapping[str, str], clock: Clock, provider: SandboxProvider) -> None:
        """Hold what `start` composes; see `build_service`."""
        self._policy = policy
        self._env = env
        self._clock = clock
        self._provider = provider
        self._grace = 0.0
        self._stack = AsyncExitStack()

    async def start(self) -> str:
        """Settle what an earlier process left, then serve.

        Returns:
            The address it is called at.

        Raises:
            ConfigError: the address, the database or the keys can't be used, or another broker has the data root.
        """
        async with AsyncExitStack() as stack:
            address = await self._start(stack)
            self._stack = stack.pop_all()
        return address

    async def stop(self, grace: float) -> None:
        """Give running calls `grace` seconds, then remove every sandbox and close everything."""
        self._grace = grace
        await self._stack.aclose()

    async def _start(self, stack: AsyncExitStack) -> str:
        policy = self._policy
        prepare(policy.storage.root)
        stack.enter_context(DataRootLock(policy.storage.root, NAME))
        url = await migrations.ensure(policy, NAME, database_url(policy, NAME, self._env))
        database = Database(url)
        stack.push_async_callback(database.close)
        stack.push_async_callback(self._provider.close)
        store = LeaseStore(database)
        holder = _holder(policy.storage.root)
        lifecycle = self._lifecycle(store, holder)
        stack.push_async_callback(lifecycle.stop)
        await lifecycle.settle_former()
        grace = timedelta(seconds=policy.sandbox.orphan_grace_seconds)
        sweeper = Sweeper(store, lifecycle, clock=self._clock, holder=holder, grace=grace)
        queue_time = timedelta(seconds=policy.runtime.queue_seconds)
        service = SandboxService(store, lifecycle, clock=self._clock, holder=holder, queue_time=queue_time)
        address = await self._serve(stack, service)
        lifecycle.pool.start(await store.last_root_workspace())
        sweeper.start()
        stack.push_async_callback(sweeper.stop)
        return address

    def _lifecycle(self, store: LeaseStore, holder: str) -> Lifecycle:
        sandbox = self._policy.sandbox
        capacity = Capacity({Kind.ROOT: sandbox.max_root_leases, Kind.CHILD: sandbox.max_child_leases})
        return Lifecycle(
            store,
            self._provider,
            capacity,
            {Kind.ROOT: sandbox.warm_root, Kind.CHILD: sandbox.warm_child},
            clock=self._clock,
            deployment=sandbox.deployment_id or "fleet",
            holder=holder,
            grace=timedelta(seconds=sandbox.orphan_grace_seconds),
        )

    async def _serve(self, stack: AsyncExitStack, service: SandboxService) -> str:
        files = FileService(service, self._provider, BlobStore(self._policy.storage.blobs))

        def add_servicers(server: grpc.aio.Server) -> None:
            sandbox_service_pb2_grpc.add_SandboxServiceServicer_to_server(SandboxServicer(service, files), server)

        server = build_server(self._policy, NAME, add_servicers, keys.verifier(self._policy, self._env))
        port = await server.start(ready=False)

        async def stop_server() -> None:
            await server.stop(self._grace)

        stack.push_async_callback(stop_server)
        address = f"{self._policy.bind_address(NAME).rpartition(':')[0]}:{port}"
        service.endpoint = _advertised(address)
        await server.set_ready(True)
        return address


def _holder(data_root: Path) -> str:
    """Return this replica's id, which lives as long as its data root."""
    path = data_root / _HOLDER_FILE
    if path.exists():
        return path.read_text().strip()
    holder = new_id()
    path.write_text(holder)
    return holder


def _advertised(address: str) -> str:
    """Return the address under which other machines reach this replica."""
    host, _, port = address.rpartition(":")
    if host not in _WILDCARDS:
        return address
    try:
        return f"{socket.gethostbyname(socket.gethostname())}:{port}"
    except OSError:
        return f"{socket.gethostname()}:{port}"
