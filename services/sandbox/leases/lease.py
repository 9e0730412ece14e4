"""Leases: the states that the right to use a sandbox goes through."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from services.sandbox.providers.base import Kind

EPOCH = 1
"""Epoch of a lease's sandbox. A lost sandbox ends its lease, so a lease never has a second one."""


class LeaseState(StrEnum):
    """Where a lease is in its life."""

    INTENT = "INTENT"
    CREATING = "CREATING"
    READY = "READY"
    LOST = "LOST"
    DELETING = "DELETING"
    ABSENT = "ABSENT"
    QUARANTINED = "QUARANTINED"


_NEXT = {
    LeaseState.INTENT: {LeaseState.CREATING, LeaseState.DELETING},
    LeaseState.CREATING: {LeaseState.READY, LeaseState.DELETING},
    LeaseState.READY: {LeaseState.LOST, LeaseState.DELETING},
    LeaseState.LOST: {LeaseState.DELETING},
    LeaseState.DELETING: {LeaseState.ABSENT, LeaseState.QUARANTINED},
    LeaseState.QUARANTINED: {LeaseState.DELETING},
    LeaseState.ABSENT: set[LeaseState](),
}

OPEN = frozenset(state for state in LeaseState if state is not LeaseState.ABSENT)
"""States in which a sandbox may exist, so that capacity is counted."""

UNUSABLE = frozenset((LeaseState.LOST, LeaseState.DELETING, LeaseState.ABSENT, LeaseState.QUARANTINED))
"""States from which a lease never becomes usable again."""


class LeaseTransitionError(Exception):
    """A lease can't go from one state to another."""


def before(target: LeaseState) -> frozenset[LeaseState]:
    """Return the states that may go over into another one."""
    return frozenset(state for state, following in _NEXT.items() if target in following)


@dataclass(frozen=True)
class Owner:
    """Whom a sandbox works for; ids, or empty.

    Attributes:
        session: The Session.
        turn: The Turn; empty for a resident interpreter between Turns.
        child: The child; empty for a Root.
    """

    session: str
    turn: str = ""
    child: str = ""


@dataclass(frozen=True)
class Lease:
    """The right to use one sandbox.

    Attributes:
        id: Sorts by the time it was made.
        request_id: Chosen by the caller; None once the request may be made anew.
        kind: What the sandbox is for.
        owner: Whom it works for.
        workspace: Scope of callers and files.
        sandbox: Deterministic name of the sandbox.
        holder: The replica that has the sandbox.
        endpoint: That replica's address.
        expire_time: When the lease ends unless renewed.
        create_time: When it was made.
        state: Where it is in its life.
        isolation: What keeps the code apart; empty before READY.
        mount_root: Absolute path inside below which staged files lie; empty before READY.
        idle_since: Since when nothing runs in it; None while something does.
        warm: Whether the sandbox was ready beforehand.
        last_error: Why it is lost or quarantined, in public words.
        delete_attempts: How often its removal was tried.
        epoch: Every call names this number.
    """

    id: str
    request_id: str | None
    kind: Kind
    owner: Owner
    workspace: str
    sandbox: str
    holder: str
    endpoint: str
    expire_time: datetime
    create_time: datetime
    state: LeaseState = LeaseState.INTENT
    isolation: str = ""
    mount_root: str = ""
    idle_since: datetime | None = None
    warm: bool = False
    last_error: str = ""
    delete_attempts: int = 0
    epoch: int = field(default=EPOCH)

    @property
    def name(self) -> str:
        """Resource name."""
        return f"leases/{self.id}"

    def to(self, state: LeaseState, error: str = "") -> Lease:
        """Return the lease in another state.

        Args:
            state: The state.
            error: Public words that explain it; none keeps the earlier ones.

        Raises:
            LeaseTransitionError: It can't go there.
        """
        if state not in _NEXT[self.state]:
            raise LeaseTransitionError(f"{self.state} can't become {state}")
        attempts = self.delete_attempts + (state is LeaseState.DELETING)
        return replace(self, state=state, last_error=error or self.last_error, delete_attempts=attempts)

    def renewed(self, now: datetime, ttl: timedelta, *, idle: bool, turn: str) -> Lease:
        """Return the lease with a later end.

        Args:
            now: The time.
            ttl: How long it lives from here.
            idle: Whether nothing runs in it.
            turn: The Turn that it works for; empty for none.
        """
        idle_since = (self.idle_since or now) if idle else None
        owner = replace(self.owner, turn=turn)
        return replace(self, expire_time=now + ttl, idle_since=idle_since, owner=owner)

    def same_request(self, kind: Kind, owner: Owner) -> bool:
        """Return whether a repeated request asks for this lease; its Turn may have moved on."""
        return self.kind is kind and (self.owner.session, self.owner.child) == (owner.session, owner.child)
