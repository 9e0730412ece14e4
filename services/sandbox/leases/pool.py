"""Warm sandboxes: made beforehand, handed out at once, made anew in the background."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from services.common.errors import FleetError
from services.sandbox.leases.capacity import Capacity
from services.sandbox.providers.base import Kind, SandboxSpec
from services.sandbox.runtime import Runtime

Make = Callable[[SandboxSpec], Awaitable[Runtime]]
Remove = Callable[[Runtime], Awaitable[bool]]

_RETRY_SECONDS = 5.0
_log = logging.getLogger(__name__)


class WarmPool:
    """Keeps so many sandboxes of each kind ready; each holds a slot of the capacity.

    A Root's sandbox shows a workspace's files from its start, so warm ones are made for the workspace that was asked
    for last.

    Args:
        sizes: How many of each kind.
        capacity: Where their slots come from; nobody waits because of a warm one.
        name: Makes a sandbox name.
        make: Makes and starts a sandbox.
        remove: Removes one; returns whether it is confirmed gone.
    """

    def __init__(
        self, sizes: dict[Kind, int], capacity: Capacity, name: Callable[[], str], make: Make, remove: Remove
    ) -> None:
        self._sizes = sizes
        self._capacity = capacity
        self._name = name
        self._make = make
        self._remove = remove
        self._ready: dict[Kind, list[tuple[str, Runtime]]] = {kind: [] for kind in sizes}
        self._workspace = ""
        self._wanted = asyncio.Event()
        self._filler: asyncio.Task[None] | None = None

    def start(self, workspace: str) -> None:
        """Begin to fill.

        Args:
            workspace: Whose files warm Root sandboxes show; empty waits for the first request.
        """
        self._workspace = workspace
        self._wanted.set()
        self._filler = asyncio.create_task(self._fill(), name="warm pool")

    def count(self, kind: Kind) -> int:
        """Return how many are ready."""
        return len(self._ready[kind])

    def take(self, kind: Kind, workspace: str) -> Runtime | None:
        """Return a ready sandbox, whose slot goes with it, or None. Another one is made in the background."""
        if kind is Kind.ROOT:
            self._workspace = workspace
        wanted = workspace if kind is Kind.ROOT else ""
        found = None
        for entry in self._ready[kind]:
            if entry[0] == wanted and not entry[1].lost:
                found = entry
                break
        if found is not None:
            self._ready[kind].remove(found)
        self._wanted.set()
        return found[1] if found else None

    async def give_up_one(self, kind: Kind) -> bool:
        """Remove a ready sandbox, whose slot becomes free; return whether there was one."""
        if not self._ready[kind]:
            return False
        await self._drop(kind, self._ready[kind].pop(0)[1])
        return True

    async def _drop(self, kind: Kind, runtime: Runtime) -> None:
        await self._remove(runtime)
        self._capacity.give_back(kind)

    async def _fill(self) -> None:
        while True:
            self._wanted.clear()
            try:
                await self._drop_useless()
                for kind, size in self._sizes.items():
                    while len(self._ready[kind]) < size and await self._add(kind):
                        continue
            except FleetError as error:
                _log.warning("a warm sandbox could not be made: %s", error.message)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_SECONDS):
                        await self._wanted.wait()
            await self._wanted.wait()

    async def _add(self, kind: Kind) -> bool:
        """Make one; return False when there is nothing to make it for, or no slot."""
        workspace = self._workspace if kind is Kind.ROOT else ""
        if (kind is Kind.ROOT and not workspace) or not self._capacity.try_take(kind):
            return False
        try:
            runtime = await self._make(SandboxSpec(self._name(), kind, workspace or None))
        except BaseException:
            self._capacity.give_back(kind)
            raise
        if self._capacity.waiting(kind):
            # Who came while this one was being made found neither a slot nor a ready sandbox.
            await self._drop(kind, runtime)
            return False
        self._ready[kind].append((workspace, runtime))
        return True

    async def _drop_useless(self) -> None:
        """Remove those that ended, and Roots of another workspace than the last one."""
        for kind, entries in self._ready.items():
            wanted = self._workspace if kind is Kind.ROOT else ""
            for entry in [entry for entry in entries if entry[1].lost or entry[0] != wanted]:
                entries.remove(entry)
                await self._drop(kind, entry[1])

    async def stop(self) -> None:
        """Stop filling and remove every ready sandbox."""
        if self._filler is not None:
            self._filler.cancel()
            await asyncio.wait((self._filler,))
        for kind, entries in self._ready.items():
            while entries:
                await self._drop(kind, entries.pop()[1])
