"""Tables of the recursion service. Times are microseconds since 1970 in UTC, alike in SQLite and PostgreSQL."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Index, Text, UniqueConstraint
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel


class Table(SQLModel, registry=registry()):
    """Base of this service's tables: they have metadata of their own."""


class LedgerRow(Table, table=True):
    """A Turn's ledger."""

    __tablename__ = "ledgers"
    __table_args__ = (
        CheckConstraint("state IN ('open', 'settling', 'settled', 'aborted')", name="ledger_state"),
        CheckConstraint("(closed_at IS NOT NULL) = (state IN ('settled', 'aborted'))", name="ledger_closed"),
        Index("ledgers_by_deadline", "state", "deadline"),
    )

    turn: str = Field(primary_key=True, max_length=64)
    session: str = Field(max_length=64)
    workspace: str = Field(max_length=128)
    epoch: int = Field(sa_type=BigInteger)
    state: str = Field(max_length=16)
    deadline: int = Field(sa_type=BigInteger)
    work_deadline: int = Field(sa_type=BigInteger)
    closed_at: int | None = Field(default=None, sa_type=BigInteger)


class LineRow(Table, table=True):
    """One dimension of a ledger. `open_until` is when it stops granting; 0 once the ledger is settling or ended."""

    __tablename__ = "ledger_lines"
    __table_args__ = (
        CheckConstraint("used >= 0 AND used <= allowed", name="ledger_line_within_limit"),
        ForeignKeyConstraint(["turn"], ["ledgers.turn"], ondelete="CASCADE"),
    )

    turn: str = Field(primary_key=True, max_length=64)
    dimension: str = Field(primary_key=True, max_length=32)
    allowed: int = Field(sa_type=BigInteger)
    used: int = Field(default=0, sa_type=BigInteger)
    open_until: int = Field(sa_type=BigInteger)


class ReservationRow(Table, table=True):
    """Units granted once for an id; `unused` of them were given back."""

    __tablename__ = "reservations"
    __table_args__ = (
        CheckConstraint("unused >= 0 AND unused <= amount", name="reservation_refund"),
        ForeignKeyConstraint(["turn"], ["ledgers.turn"], ondelete="CASCADE"),
    )

    turn: str = Field(primary_key=True, max_length=64)
    id: str = Field(primary_key=True, max_length=128)
    dimension: str = Field(max_length=32)
    amount: int = Field(sa_type=BigInteger)
    unused: int = Field(default=0, sa_type=BigInteger)


class CallRow(Table, table=True):
    """A call for children; `digest` is SHA-256 of what it asked for."""

    __tablename__ = "child_calls"
    __table_args__ = (ForeignKeyConstraint(["turn"], ["ledgers.turn"], ondelete="CASCADE"),)

    turn: str = Field(primary_key=True, max_length=64)
    id: str = Field(primary_key=True, max_length=128)
    digest: str = Field(max_length=64)


class ChildRow(Table, table=True):
    """A child: its place in a call and in the Turn, who may write it until when, and how it ended."""

    __tablename__ = "children"
    __table_args__ = (
        CheckConstraint("state IN ('queued', 'running', 'cleaning', 'ended')", name="child_state"),
        CheckConstraint("(outcome IS NOT NULL) = (state IN ('cleaning', 'ended'))", name="child_outcome"),
        UniqueConstraint("turn", "call_id", "position", name="child_position"),
        UniqueConstraint("turn", "ordinal", name="child_ordinal"),
        ForeignKeyConstraint(["turn", "call_id"], ["child_calls.turn", "child_calls.id"], ondelete="CASCADE"),
        Index("children_by_expiry", "state", "expires_at"),
    )

    id: str = Field(primary_key=True, max_length=64)
    turn: str = Field(max_length=64)
    call_id: str = Field(max_length=128)
    position: int
    ordinal: int
    state: str = Field(max_length=16)
    owner: str = Field(max_length=64)
    epoch: int = Field(sa_type=BigInteger)
    expires_at: int = Field(sa_type=BigInteger)
    refunded: bool = False
    outcome: str | None = Field(default=None, sa_type=Text)
