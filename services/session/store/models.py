"""The tables of the session service and the rules that the database itself enforces."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import BigInteger, CheckConstraint, Index, LargeBinary, text
from sqlalchemy import MetaData as SqlMetaData
from sqlmodel import Field, SQLModel

from services.session.store.columns import JsonText, UtcTime
from services.session.turns.turn import ACTIVE, TERMINAL, UNANSWERED

METADATA = SqlMetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""Every table of this service and of no other."""


class Table(SQLModel):
    """What every table shares."""

    metadata: ClassVar[SqlMetaData] = METADATA


def _quoted(states: tuple[str, ...]) -> str:
    return ", ".join(f"'{state}'" for state in states)


class SessionRow(Table, table=True):
    """A Session."""

    __tablename__ = "sessions"
    __table_args__ = (
        Index("ix_sessions_page", "workspace", "update_time", "id"),
        CheckConstraint("state IN ('ACTIVE', 'ARCHIVED')", name="state"),
        CheckConstraint("checkpoint_version >= 0", name="checkpoint_version"),
    )

    id: str = Field(primary_key=True)
    workspace: str
    title: str = Field(sa_type=JsonText)
    state: str
    checkpoint_version: int = Field(sa_type=BigInteger)
    revision: int = Field(sa_type=BigInteger)
    labels: dict[str, str] = Field(sa_type=JsonText)
    create_time: datetime = Field(sa_type=UtcTime)
    update_time: datetime = Field(sa_type=UtcTime)


class OwnerRow(Table, table=True):
    """Which replica runs a Session's Turns; the epoch grows with every takeover."""

    __tablename__ = "session_owners"
    __table_args__ = (
        Index("ix_session_owners_expires", "expires"),
        CheckConstraint("epoch >= 1", name="epoch"),
    )

    session_id: str = Field(primary_key=True, foreign_key="sessions.id", ondelete="CASCADE")
    owner: str
    address: str
    epoch: int = Field(sa_type=BigInteger)
    expires: datetime = Field(sa_type=UtcTime)


class TurnRow(Table, table=True):
    """A Turn."""

    __tablename__ = "turns"
    __table_args__ = (
        Index("uq_turns_request", "session_id", "request_id", unique=True),
        Index("uq_turns_checkpoint", "session_id", "checkpoint_version", unique=True),
        Index("ix_turns_page", "session_id", "create_time", "id"),
        Index(
            "uq_turns_active",
            "session_id",
            unique=True,
            sqlite_where=text("end_time IS NULL"),
            postgresql_where=text("end_time IS NULL"),
        ),
        CheckConstraint(f"state IN ({_quoted((*ACTIVE, *TERMINAL))})", name="state"),
        CheckConstraint(f"(state IN ({_quoted(TERMINAL)})) = (end_time IS NOT NULL)", name="ended"),
        CheckConstraint(f"(state IN ({_quoted(UNANSWERED)})) = (error IS NOT NULL)", name="error"),
        CheckConstraint("(state = 'COMPLETED') = (answer IS NOT NULL)", name="answer"),
        CheckConstraint("(state = 'COMPLETED') = (outputs IS NOT NULL)", name="outputs"),
        CheckConstraint("(state = 'COMPLETED') = (checkpoint_version IS NOT NULL)", name="checkpoint"),
        CheckConstraint(
            "(state = 'COMPLETED') = (termination IS NOT NULL) "
            "AND (termination IS NULL OR termination IN ('submit', 'extract'))",
            name="termination",
        ),
    )

    id: str = Field(primary_key=True)
    session_id: str = Field(foreign_key="sessions.id", ondelete="CASCADE")
    workspace: str
    request_id: str
    fingerprint: str
    epoch: int = Field(sa_type=BigInteger)
    state: str
    text: str = Field(sa_type=JsonText)
    choices: dict[str, Any] = Field(sa_type=JsonText)
    limits: dict[str, int] = Field(sa_type=JsonText)
    create_time: datetime = Field(sa_type=UtcTime)
    start_time: datetime | None = Field(default=None, sa_type=UtcTime)
    end_time: datetime | None = Field(default=None, sa_type=UtcTime)
    answer: str | None = Field(default=None, sa_type=JsonText)
    outputs: dict[str, Any] | None = Field(default=None, sa_type=JsonText)
    termination: str | None = None
    checkpoint_version: int | None = Field(default=None, sa_type=BigInteger)
    usage: dict[str, Any] = Field(sa_type=JsonText)
    budget: list[Any] = Field(sa_type=JsonText)
    iterations: int = 0
    trace_id: str = ""
    error: dict[str, str] | None = Field(default=None, sa_type=JsonText)


class TurnAttachmentRow(Table, table=True):
    """An attachment that a Turn was given; the attachment itself may be deleted once the Turn has ended."""

    __tablename__ = "turn_attachments"
    __table_args__ = (Index("ix_turn_attachments_attachment", "attachment_id"),)

    turn_id: str = Field(primary_key=True, foreign_key="turns.id", ondelete="CASCADE")
    attachment_id: str = Field(primary_key=True)


class EventRow(Table, table=True):
    """One event of a Turn: its number and the serialized message."""

    __tablename__ = "turn_events"
    __table_args__ = (CheckConstraint("sequence >= 1", name="sequence"),)

    turn_id: str = Field(primary_key=True, foreign_key="turns.id", ondelete="CASCADE")
    sequence: int = Field(primary_key=True, sa_type=BigInteger)
    kind: str
    time: datetime = Field(sa_type=UtcTime)
    data: bytes = Field(sa_type=LargeBinary)


class AttachmentRow(Table, table=True):
    """An attachment's metadata; its bytes are in the blob store."""

    __tablename__ = "attachments"
    __table_args__ = (
        Index("ix_attachments_page", "workspace", "create_time", "id"),
        CheckConstraint("byte_size >= 1", name="byte_size"),
    )

    id: str = Field(primary_key=True)
    workspace: str
    filename: str = Field(sa_type=JsonText)
    content_type: str = Field(sa_type=JsonText)
    byte_size: int = Field(sa_type=BigInteger)
    sha256: str
    create_time: datetime = Field(sa_type=UtcTime)
    blob_key: str
