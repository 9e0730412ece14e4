"""What composition roots do alike: open parts in order, close them in reverse, say where they listen."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AsyncExitStack

from config.policy import Policy
from config.server import ComponentName
from services.common import migrations
from services.common.clock import Clock
from services.common.data_root import DataRootLock
from services.common.database import Database, database_url

_WILDCARDS = ("0.0.0.0", "[::]")  # noqa: S104 - compared with, not bound


class ComposedService(ABC):
    """One replica of a service: `await start()` once, `await stop(grace)` once."""

    name: ComponentName
    """The component's name in the policy."""

    def __init__(self, policy: Policy, env: Mapping[str, str], clock: Clock) -> None:
        """Hold what `start` composes.

        Args:
            policy: the effective policy.
            env: the environment.
            clock: the time.
        """
        self._policy = policy
        self._env = env
        self._clock = clock
        self._grace = policy.server.drain_seconds
        self._stack = AsyncExitStack()

    async def start(self) -> str:
        """Open everything, settle what a former owner left, and serve; returns `host:port`.

        A start that fails half way closes what it has opened.

        Raises:
            ConfigError: the data root is in use, the database is behind, or the address or the keys can't be used.
        """
        async with AsyncExitStack() as stack:
            address = await self._open(stack)
            self._stack = stack.pop_all()
        return address

    async def stop(self, grace: float) -> None:
        """Give running work `grace` seconds, end it, and close everything; does nothing before `start`."""
        self._grace = grace
        await self._stack.aclose()

    @abstractmethod
    async def _open(self, stack: AsyncExitStack) -> str:
        """Open every part onto `stack` and serve; returns `host:port`. `self._grace` is known when it is closed."""

    @property
    def _alone(self) -> bool:
        """Whether this replica is the only one there can be: its database is a file of this machine."""
        return database_url(self._policy, self.name, self._env).startswith("sqlite")

    def _lock_data_root(self, stack: AsyncExitStack) -> None:
        """Prove that no former owner of the data root is alive."""
        stack.enter_context(DataRootLock(self._policy.storage.root, self.name))

    async def _open_database(self, stack: AsyncExitStack) -> Database:
        url = await migrations.ensure(self._policy, self.name, database_url(self._policy, self.name, self._env))
        database = Database(url)
        stack.push_async_callback(database.close)
        return database

    def _bound(self, port: int) -> str:
        """`host:port` of the listener, whose port the system may have chosen."""
        return f"{self._policy.bind_address(self.name).rpartition(':')[0]}:{port}"


def advertised(address: str) -> str:
    """Where other machines reach a listener: the host's own address for one that binds every address."""
    host, _, port = address.rpartition(":")
    if host not in _WILDCARDS:
        return address
    try:
        return f"{socket.gethostbyname(socket.gethostname())}:{port}"
    except OSError:
        return f"{socket.gethostname()}:{port}"
