"""Which Sessions this replica owns: claimed when a Turn needs one, kept by heartbeat, taken over when abandoned."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from services.common.clock import Clock
from services.common.logging import get_logger
from services.session.refusals import not_owner
from services.session.store import Ownership, Store
from services.session.turns.turn import Turn

SWEEP_TURNS = 16
"""Most abandoned Turns that are settled at once."""

_log = get_logger(__name__)


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
        self._tasks: list[asyncio.Task[None]] = []
        self._background: set[asyncio.Task[None]] = set()

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
        self._tasks = [
            asyncio.create_task(self._beat_forever(on_lost), name="session-heartbeat"),
            asyncio.create_task(self._sweep_forever(take_over), name="session-sweep"),
        ]

    async def stop(self) -> None:
        """End the heartbeat and give every Session back."""
        if not self._tasks:
            return
        for task in (*self._tasks, *self._background):
            task.cancel()
        await asyncio.wait([*self._tasks, *self._background])
        self._tasks = []
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

    async def _beat_forever(self, on_lost: Callable[[frozenset[str]], Awaitable[None]]) -> None:
        while True:
            try:
                lost = await self._renew()
                if lost:
                    self._spawn(on_lost(lost))
            except Exception:  # noqa: BLE001  A database that is down for a while must not end the heartbeat.
                _log.exception("the ownership heartbeat failed; it is repeated")
            await asyncio.sleep(self._terms.heartbeat_seconds)

    async def _sweep_forever(self, take_over: Callable[[Turn], Awaitable[None]]) -> None:
        while True:
            try:
                turns = await self._store.owners.orphans(self._owner, self._clock.now(), SWEEP_TURNS)
                await asyncio.gather(*(take_over(turn) for turn in turns))
            except Exception:  # noqa: BLE001  What could not be settled is found again.
                _log.exception("the sweep of abandoned Turns failed; it is repeated")
            await asyncio.sleep(self._terms.heartbeat_seconds)

    def _spawn(self, work: Awaitable[None]) -> None:
        """Run what may take longer than a heartbeat, so that other Sessions' renewal doesn't wait for it."""
        task = asyncio.ensure_future(_logged(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

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


async def _logged(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001  The Sessions are another's already; nothing is left to undo.
        _log.exception("letting go of a lost Session failed")
