"""How many sandboxes there may be: separate shares for Roots and children, a fair queue for each."""

from __future__ import annotations

import asyncio
from collections import deque

from services.common.errors import FleetError
from services.sandbox.providers.base import Kind

RETRY_SECONDS = 2.0


class Capacity:
    """Slots of each kind; who waits longest gets the next one.

    Args:
        limits: Slots of each kind.
    """

    def __init__(self, limits: dict[Kind, int]) -> None:
        self._limits = limits
        self._used = dict.fromkeys(limits, 0)
        self._waiting: dict[Kind, deque[asyncio.Future[None]]] = {kind: deque() for kind in limits}

    def used(self, kind: Kind) -> int:
        """Return the slots in use."""
        return self._used[kind]

    def waiting(self, kind: Kind) -> int:
        """Return how many wait."""
        return sum(not waiter.done() for waiter in self._waiting[kind])

    def limit(self, kind: Kind) -> int:
        """Return the slots there are."""
        return self._limits[kind]

    def try_take(self, kind: Kind) -> bool:
        """Take a slot if one is free and nobody waits for it."""
        if self._used[kind] >= self._limits[kind] or self.waiting(kind):
            return False
        self._used[kind] += 1
        return True

    async def take(self, kind: Kind, seconds: float) -> None:
        """Wait for a slot and take it.

        Args:
            kind: Which share.
            seconds: How long to wait.

        Raises:
            FleetError: `SANDBOX_CAPACITY` when none became free in time.
        """
        if self.try_take(kind):
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[kind].append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except BaseException as error:
            self._give_up(kind, waiter)
            if isinstance(error, TimeoutError):
                raise self._exhausted(kind) from None
            raise

    def _give_up(self, kind: Kind, waiter: asyncio.Future[None]) -> None:
        if waiter.done() and not waiter.cancelled():
            # The slot came together with the end of the wait.
            self.give_back(kind)
        else:
            self._waiting[kind].remove(waiter)

    def _exhausted(self, kind: Kind) -> FleetError:
        return FleetError(
            "SANDBOX_CAPACITY",
            f"All {self._limits[kind]} {kind} sandboxes are in use.",
            {"kind": kind, "limit": str(self._limits[kind])},
            retry_after=RETRY_SECONDS,
        )

    def occupy(self, kind: Kind) -> None:
        """Count a sandbox that exists whether there is a slot for it or not."""
        self._used[kind] += 1

    def give_back(self, kind: Kind) -> None:
        """Free a slot, or pass it on to who waits longest."""
        self._used[kind] -= 1
        waiting = self._waiting[kind]
        while waiting and self._used[kind] < self._limits[kind]:
            waiter = waiting.popleft()
            if not waiter.done():
                self._used[kind] += 1
                waiter.set_result(None)
