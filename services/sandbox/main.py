"""The composition root of the sandbox broker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import grpc
from fleet.sandbox.v1 import sandbox_service_pb2_grpc

from config.policy import Policy
from config.problem import ConfigError, Problem
from config.server import ComponentName
from services.common import keys
from services.common.blobs import BlobStore
from services.common.clock import Clock, SystemClock
from services.common.composed import ComposedService, advertised
from services.common.data_root import prepare
from services.common.ids import new_id
from services.common.server import build_server
from services.sandbox.files.service import FileService
from services.sandbox.leases.capacity import Capacity
from services.sandbox.leases.lifecycle import Lifecycle
from services.sandbox.leases.sweeper import Sweeper
from services.sandbox.providers.base import Kind, SandboxProvider
from services.sandbox.providers.local.layout import LocalLimits
from services.sandbox.providers.local.provider import LocalProvider
from services.sandbox.service import SandboxService
from services.sandbox.servicers.service import SandboxServicer
from services.sandbox.store import LeaseStore

NAME: ComponentName = "sandbox"
"""The component's name in the policy."""

_HOLDER_FILE = "sandbox_holder"


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
    prepare(policy.storage.root)
    limits = LocalLimits(local.cpu_seconds, local.memory_mb, local.processes, local.files_mb)
    return LocalProvider(policy.storage.root, limits)


class SandboxServer(ComposedService):
    """One replica of the broker: `await start()` once, `await stop(grace)` once."""

    name = NAME

    def __init__(self, policy: Policy, env: Mapping[str, str], clock: Clock, provider: SandboxProvider) -> None:
        """Hold what `start` composes; see `build_service`."""
        super().__init__(policy, env, clock)
        self._provider = provider

    async def _open(self, stack: AsyncExitStack) -> str:
        policy = self._policy
        prepare(policy.storage.root)
        self._lock_data_root(stack)  # whatever the database: local sandboxes live below the data root
        database = await self._open_database(stack)
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
        address = self._bound(port)
        service.endpoint = advertised(address)
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
