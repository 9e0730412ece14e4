"""One resident runtime: a Session's RLM, interpreter and lease, with its generation and health."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar


class Health(StrEnum):
    """Whether a resident may serve another Turn."""

    HEALTHY = "healthy"
    """Its last Turn was committed; a Turn with the same fingerprint may use it again."""

    TAINTED = "tainted"
    """A Turn began and has not been committed, or the runtime broke: it serves no further Turn."""

    DRAINING = "draining"
    """It is being closed and its lease released."""

    CLOSED = "closed"
    """Its lease is confirmed gone."""


@dataclass(frozen=True)
class SessionKey:
    """What residents are kept by.

    Attributes:
        workspace: the Session's workspace.
        session: the Session's id.
    """

    workspace: str
    session: str


class ResidentRuntime(Protocol):
    """What a resident holds: the running parts behind its state."""

    async def open(self) -> None:
        """Acquire the lease and start the interpreter and the RLM.

        Raises:
            FleetError: no sandbox could be had.
        """

    async def renew(self, *, idle: bool, turn: str) -> None:
        """Prolong the lease.

        Args:
            idle: whether no Turn runs, so that the broker may reclaim it under pressure.
            turn: id of the running Turn, or empty.

        Raises:
            FleetError: LEASE_LOST, LEASE_NOT_FOUND, LEASE_NOT_READY or STALE_EPOCH when the lease is gone for good;
                anything else says nothing about the lease.
        """

    async def close(self) -> bool:
        """End the RLM and the interpreter and release the lease; may be repeated.

        What a failed or cancelled `open` left behind is ended too.

        Returns:
            Whether the sandbox is confirmed gone.
        """


R = TypeVar("R", bound=ResidentRuntime)


class Resident(Generic[R]):
    """One generation of a Session's runtime and the rules of its health.

    A resident is tainted from the moment a Turn starts and is healthy again only by that Turn's commit: whatever is
    forgotten on the way leaves it unusable, never reused.

    Attributes:
        key: whose it is.
        generation: 1, 2, 3 … among the residents of this process.
        fingerprint: of the RLM it was made for.
        runtime: the running parts.
        turn: id of the running Turn, or empty.
        last_used: monotonic seconds at which its last Turn ended.
        renewed: monotonic seconds at which its lease was last known to be held.
        renewal: held while the lease is being renewed, so that the broker hears of idle and busy in order.
        lost: set when the lease or its sandbox is gone.
    """

    def __init__(self, key: SessionKey, generation: int, fingerprint: str, runtime: R) -> None:
        """A fresh resident: tainted until its first Turn is committed."""
        self.key = key
        self.generation = generation
        self.fingerprint = fingerprint
        self.runtime = runtime
        self.turn = ""
        self.last_used = 0.0
        self.renewed = 0.0
        self.renewal = asyncio.Lock()
        self.lost = asyncio.Event()
        self._health = Health.TAINTED
        self._reason = "the runtime has not completed a Turn"

    @property
    def health(self) -> Health:
        """Whether it may serve another Turn."""
        return self._health

    @property
    def reason(self) -> str:
        """Why it isn't healthy, in a few public words; empty when it is."""
        return "" if self._health is Health.HEALTHY else self._reason

    @property
    def running(self) -> bool:
        """Whether a Turn runs in it."""
        return bool(self.turn)

    def rotation_reason(self, fingerprint: str) -> str:
        """Why a Turn with `fingerprint` can't use it; empty when it can."""
        if self._health is not Health.HEALTHY:
            return self._reason
        return "" if fingerprint == self.fingerprint else "the Turn's configuration differs from the resident's"

    def begin(self, turn: str) -> None:
        """A Turn starts: tainted until it is committed."""
        self.turn = turn
        self._taint("the Turn before was not committed")

    def commit(self, at: float) -> None:
        """The running Turn was committed at monotonic second `at`: healthy, unless the lease was lost meanwhile."""
        self._end(at)
        if self._health is Health.TAINTED and not self.lost.is_set():
            self._health = Health.HEALTHY

    def abandon(self, reason: str, at: float) -> None:
        """The running Turn ended without a commit at monotonic second `at`."""
        self._end(at)
        if not self.lost.is_set():
            self._taint(reason)

    def lose(self, reason: str) -> None:
        """The lease or its sandbox is gone; no commit makes up for it."""
        if not self.lost.is_set():
            self.lost.set()
            self._taint(reason)

    def drain(self, reason: str) -> None:
        """It is being closed because of `reason`."""
        if self._health in (Health.HEALTHY, Health.TAINTED):
            self._health, self._reason = Health.DRAINING, reason

    def closed(self) -> None:
        """Its lease is confirmed gone."""
        self._health = Health.CLOSED

    def _taint(self, reason: str) -> None:
        if self._health in (Health.HEALTHY, Health.TAINTED):
            self._health, self._reason = Health.TAINTED, reason

    def _end(self, at: float) -> None:
        self.turn = ""
        self.last_used = at
