"""A conversation: what it is and how it may change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class SessionState(StrEnum):
    """Whether a Session takes Turns."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"


@dataclass(frozen=True)
class Session:
    """An ordered list of committed Turns.

    Attributes:
        id: unique everywhere.
        workspace: the tenant it belongs to.
        title: what a person calls it, at most 255 characters.
        state: whether it takes Turns.
        checkpoint_version: how many Turns are committed.
        labels: the caller's own pairs.
        create_time: UTC.
        update_time: UTC, of the last change, a committed Turn included.
        revision: counts changes; the etag is made from it.
        running_turn: id of the Turn that is running, or None.
    """

    id: str
    workspace: str
    title: str
    state: SessionState
    checkpoint_version: int
    create_time: datetime
    update_time: datetime
    revision: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    running_turn: str | None = None

    @property
    def name(self) -> str:
        """`sessions/{id}`."""
        return f"sessions/{self.id}"

    @property
    def etag(self) -> str:
        """Changes with every update."""
        return f"{self.id[-6:]}-{self.revision}"


@dataclass(frozen=True)
class SessionPatch:
    """The fields of a Session to set; None leaves a field as it is."""

    title: str | None = None
    labels: Mapping[str, str] | None = None
    state: SessionState | None = None
