"""A child's life: its states, who owns it and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from services.recursion.children.outcomes import Outcome


class ChildState(StrEnum):
    """Where a child is in its life: QUEUED → RUNNING → CLEANING → ENDED; a queued one may end at once."""

    QUEUED = "queued"
    """Reserved; no sandbox was asked for."""
    RUNNING = "running"
    """A sandbox may exist."""
    CLEANING = "cleaning"
    """The outcome is known; the sandbox isn't confirmed gone."""
    ENDED = "ended"
    """The outcome is known and there is no sandbox."""


@dataclass(frozen=True)
class Holder:
    """Who may write a child's row.

    Attributes:
        owner: id of the replica.
        epoch: number of the ownership; a takeover raises it, so that the former owner's writes fail.
    """

    owner: str
    epoch: int


@dataclass(frozen=True)
class Child:
    """A child's durable row.

    Attributes:
        id: the child's id.
        turn: its Turn's id.
        call_id: the call that asked for it.
        position: its place in the call, from 0.
        ordinal: its number in the Turn, from 1; its result files lie in `children/<ordinal>/`.
        state: where it is in its life.
        holder: who may write the row.
        expires_at: when anybody may take it over.
        outcome: how it ended, once that is known.
    """

    id: str
    turn: str
    call_id: str
    position: int
    ordinal: int
    state: ChildState
    holder: Holder
    expires_at: datetime
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Call:
    """A durable RunChildren call.

    Attributes:
        turn: the Turn's id.
        id: chosen by the caller.
        digest: SHA-256 of what was asked for, so that a repeated call with other tasks is seen.
        children: its children in input order.
    """

    turn: str
    id: str
    digest: str
    children: tuple[Child, ...]
