"""How many Turns this replica runs at a time."""

from __future__ import annotations

import asyncio

from services.common.errors import FleetError

RETRY_SECONDS = 5.0
"""When a refused client may try again."""


class Capacity:
    """Places for running Turns, given in the order of asking."""

    def __init__(self, places: int) -> None:
        self._limit = places
        self._free = asyncio.Semaphore(places)

    async def acquire(self, seconds: float) -> None:
        """Take a place, waiting up to `seconds`.

        Raises:
            FleetError: CAPACITY_EXHAUSTED with the time after which to try again.
        """
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._free.acquire()
        except TimeoutError as error:
            message = f"The server runs as many Turns as it may ({self._limit})."
            metadata = {"max_concurrent_turns": str(self._limit)}
            raise FleetError("CAPACITY_EXHAUSTED", message, metadata, retry_after=RETRY_SECONDS) from error

    def release(self) -> None:
        """Give a place back."""
        self._free.release()
