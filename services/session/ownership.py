"""Which Sessions this replica owns: claimed when a Turn needs one, kept by heartbeat, taken over when abandoned."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from services.common.clock import Clock
from services.session.refusals import not_owner
from services.session.store import Ownership, Store
from services.session.turns import Turn

SWEEP_TURNS = 100
"""Most abandoned Turns that are looked for at once."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """How ownership is kept.

    Attributes:
        lease_seconds: how long it lasts without renewal.
        heartbeat_seconds: how often it is renewed.
        idle_seconds: how long a Session without a Turn is kept.
    """

    lease_seconds: float
    heartbeat_seconds: float
    idle_seconds: float


class SessionOwner:
    """This replica as an owner of Sessions.

    Owned by the composition root: `start()` before the first call, `await stop()` after the last Turn.

    Attributes:
        address: where this replica is called, as other replicas tell it.
    """

    def __init__(self, store: Store, clock: Clock, owner: str, terms: Terms) -> None:
        """Args: where ownership is kept, the clock, this replica's id, and the terms."""
        self._store = store
        self._clock = clock
        self._owner = owner
        self._terms = terms
        self.address = ""
        self._used: dict[str, float] = {}
        self._pins: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    async def start(
        self,
        address: str,
        *,
        alone: bool,
        on_lost: Callable[[frozenset[str]], Awaitable[None]],
        take_over: Callable[[Turn], Awaitable[None]],
    ) -> None:
        """Begin to claim Sessions.

        Args:
            address: where this replica is called.
            alone: whether no other replica can be alive, so that all its Sessions may be taken at once.
            on_lost: is told the Sessions that another replica has taken.
            take_over: settles a Turn that its owner has abandoned.
        """
        self.address = address
        if alone:
            await self._store.owners.expire_others(self._owner, self._clock.now())
        self._task = asyncio.create_task(self._beat_forever(on_lost, take_over), name="session-ownership")

    async def stop(self) -> None:
        """End the heartbeat and give every Session back."""
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._task = None
        await self._store.owners.release(self._owner, self._clock.now())

    async def claim(self, session_id: str) -> int:
        """Own a Session; returns the epoch of this ownership.

        Raises:
            FleetError: NOT_OWNER with the owner's address, or SESSION_NOT_FOUND.
        """
        now = self._clock.now()
        expires = now + timedelta(seconds=self._terms.lease_seconds)
        wanted = Ownership(session_id, self._owner, self.address, 1, expires)
        held = await self._store.owners.claim(wanted, now)
        if held.owner != self._owner:
            raise not_owner(session_id, held.address)
        self._used[session_id] = self._clock.monotonic()
        return held.epoch

    def pin(self, session_id: str) -> None:
        """Keep a Session while a Turn of it runs."""
        self._pins[session_id] += 1

    def unpin(self, session_id: str) -> None:
        """End one `pin`; the Session is kept until it has been idle for long."""
        self._pins[session_id] -= 1
        if self._pins[session_id] <= 0:
            del self._pins[session_id]
        self._used[session_id] = self._clock.monotonic()

    async def _beat_forever(
        self,
        on_lost: Callable[[frozenset[str]], Awaitable[None]],
        take_over: Callable[[Turn], Awaitable[None]],
    ) -> None:
        while True:
            try:
                lost = await self._renew()
                if lost:
                    await on_lost(lost)
                for turn in await self._store.owners.orphans(self._owner, self._clock.now(), SWEEP_TURNS):
                    await take_over(turn)
            except Exception:  # noqa: BLE001  A database that is down for a while must not end the heartbeat.
                _log.exception("the ownership heartbeat failed; it is repeated")
            await asyncio.sleep(self._terms.heartbeat_seconds)

    async def _renew(self) -> frozenset[str]:
        """Renew what is in use; returns the Sessions that are no longer own."""
        oldest = self._clock.monotonic() - self._terms.idle_seconds
        for session_id in [each for each, used in self._used.items() if used < oldest and each not in self._pins]:
            del self._used[session_id]
        wanted = frozenset(self._used) | frozenset(self._pins)
        expires = self._clock.now() + timedelta(seconds=self._terms.lease_seconds)
        lost = wanted - await self._store.owners.renew(self._owner, sorted(wanted), expires)
        for session_id in lost:
            self._used.pop(session_id, None)
        return lost
