"""Waking those who wait for something about a Turn that changed in this process."""

from __future__ import annotations

import asyncio
from collections import defaultdict


class Changes:
    """Wakes waiters of a Turn. All of it belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)

    def notify(self, turn: str) -> None:
        """Wake everyone who waits for that Turn."""
        for future in self._waiting.pop(turn, ()):
            if not future.done():
                future.set_result(None)

    async def wait(self, turn: str, seconds: float) -> None:
        """Return at the next notification, or after that time: another replica's changes come without one."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn].add(future)
        try:
            await asyncio.wait({future}, timeout=seconds)
        finally:
            future.cancel()
            waiting = self._waiting.get(turn)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[turn]
