"""The leases' table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Index, UniqueConstraint
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel, col, select

from services.common.database import Database
from services.sandbox.instants import from_micros, to_micros
from services.sandbox.leases.lease import Lease, LeaseState, Owner, before
from services.sandbox.providers.base import Kind

_ERROR_CHARS = 512
_STATES = ", ".join(f"'{state}'" for state in LeaseState)


class Table(SQLModel, registry=registry()):
    """Base of this service's tables: they have metadata of their own."""


class LeaseRow(Table, table=True):
    """A lease; its fields are those of `leases.Lease`."""

    __tablename__ = "leases"
    __table_args__ = (
        CheckConstraint(f"state IN ({_STATES})", name="lease_state"),
        CheckConstraint("kind IN ('root', 'child')", name="lease_kind"),
        UniqueConstraint("workspace", "request_id", name="lease_request"),
        Index("leases_by_holder", "holder", "state"),
        Index("leases_by_session", "workspace", "session", "id"),
    )

    id: str = Field(primary_key=True, max_length=64)
    request_id: str | None = Field(default=None, max_length=128)
    kind: str = Field(max_length=16)
    session: str = Field(max_length=64)
    turn: str = Field(max_length=64)
    child: str = Field(max_length=64)
    workspace: str = Field(max_length=128)
    sandbox: str = Field(max_length=128)
    holder: str = Field(max_length=64)
    endpoint: str = Field(max_length=255)
    state: str = Field(max_length=16)
    epoch: int = Field(sa_type=BigInteger)
    isolation: str = Field(max_length=32)
    mount_root: str = Field(max_length=255)
    warm: bool
    idle_since: int | None = Field(default=None, sa_type=BigInteger)
    expire_time: int = Field(sa_type=BigInteger)
    create_time: int = Field(sa_type=BigInteger)
    last_error: str = Field(max_length=_ERROR_CHARS)
    delete_attempts: int = Field(sa_type=BigInteger)


class LeaseStore:
    """Reads and writes leases.

    Args:
        database: The broker's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert(self, lease: Lease) -> bool:
        """Write a lease down; return False when its request id has one already."""
        try:
            async with self._database.transaction() as session:
                session.add(LeaseRow(**_fields(lease)))
        except IntegrityError:
            return False
        return True

    async def save(self, lease: Lease) -> bool:
        """Write a lease's new state; return False when the stored one may not go there, or is there already."""
        allowed = {*before(lease.state)}
        async with self._database.transaction() as session:
            row = await session.get(LeaseRow, lease.id, with_for_update=True)
            if row is None or LeaseState(row.state) not in allowed:
                return False
            _copy(lease, row)
        return True

    async def update_ready(self, lease: Lease) -> bool:
        """Write a READY lease's owner and end; return False when it is no longer READY."""
        async with self._database.transaction() as session:
            row = await session.get(LeaseRow, lease.id, with_for_update=True)
            if row is None or row.state != LeaseState.READY:
                return False
            _copy(lease, row)
        return True

    async def forget_request(self, lease_id: str) -> None:
        """Let a lease's request id be used again."""
        async with self._database.transaction() as session:
            row = await session.get(LeaseRow, lease_id, with_for_update=True)
            if row is not None:
                row.request_id = None

    async def get(self, lease_id: str) -> Lease | None:
        """Return a lease."""
        async with self._database.reading() as session:
            row = await session.get(LeaseRow, lease_id)
            return _from_row(row) if row else None

    async def by_request(self, workspace: str, request_id: str) -> Lease | None:
        """Return the lease of a request."""
        wanted = (LeaseRow.workspace == workspace, LeaseRow.request_id == request_id)
        async with self._database.reading() as session:
            row = (await session.exec(select(LeaseRow).where(*wanted))).first()
            return _from_row(row) if row else None

    async def page(
        self, workspace: str, *, session: str, turn: str, include_absent: bool, before_id: str, size: int
    ) -> list[Lease]:
        """Return a workspace's leases, latest first.

        Args:
            workspace: The workspace.
            session: Only those of this Session; empty for all.
            turn: Only those of this Turn; empty for all.
            include_absent: Also ABSENT ones.
            before_id: Only those made before this one; empty begins.
            size: How many at most.
        """
        query = select(LeaseRow).where(LeaseRow.workspace == workspace)
        if session:
            query = query.where(LeaseRow.session == session)
        if turn:
            query = query.where(LeaseRow.turn == turn)
        if not include_absent:
            query = query.where(LeaseRow.state != LeaseState.ABSENT)
        if before_id:
            query = query.where(LeaseRow.id < before_id)
        async with self._database.reading() as database:
            rows = await database.exec(query.order_by(col(LeaseRow.id).desc()).limit(size))
            return [_from_row(row) for row in rows]

    async def held(self, holder: str, states: Iterable[LeaseState]) -> list[Lease]:
        """Return a replica's leases in some states, oldest first."""
        query = select(LeaseRow).where(LeaseRow.holder == holder, col(LeaseRow.state).in_(list(states)))
        async with self._database.reading() as session:
            return [_from_row(row) for row in await session.exec(query.order_by(col(LeaseRow.id)))]

    async def abandoned(self, holder: str, before_time: datetime) -> list[Lease]:
        """Return other replicas' leases that ended before a time and that nobody removed."""
        query = select(LeaseRow).where(
            LeaseRow.holder != holder,
            LeaseRow.expire_time < to_micros(before_time),
            col(LeaseRow.state).not_in((LeaseState.ABSENT, LeaseState.QUARANTINED)),
        )
        async with self._database.reading() as session:
            return [_from_row(row) for row in await session.exec(query)]

    async def last_root_workspace(self) -> str:
        """Return the workspace of the latest Root lease; empty when there was none."""
        query = select(LeaseRow).where(LeaseRow.kind == Kind.ROOT).order_by(col(LeaseRow.id).desc()).limit(1)
        async with self._database.reading() as session:
            row = (await session.exec(query)).first()
            return row.workspace if row else ""


def _copy(lease: Lease, row: LeaseRow) -> None:
    for name, value in _fields(lease).items():
        setattr(row, name, value)


def _fields(lease: Lease) -> dict[str, Any]:
    return {
        "id": lease.id,
        "request_id": lease.request_id,
        "kind": lease.kind.value,
        "session": lease.owner.session,
        "turn": lease.owner.turn,
        "child": lease.owner.child,
        "workspace": lease.workspace,
        "sandbox": lease.sandbox,
        "holder": lease.holder,
        "endpoint": lease.endpoint,
        "state": lease.state.value,
        "epoch": lease.epoch,
        "isolation": lease.isolation,
        "mount_root": lease.mount_root,
        "warm": lease.warm,
        "idle_since": to_micros(lease.idle_since) if lease.idle_since else None,
        "expire_time": to_micros(lease.expire_time),
        "create_time": to_micros(lease.create_time),
        "last_error": lease.last_error[:_ERROR_CHARS],
        "delete_attempts": lease.delete_attempts,
    }


def _from_row(row: LeaseRow) -> Lease:
    return Lease(
        id=row.id,
        request_id=row.request_id,
        kind=Kind(row.kind),
        owner=Owner(row.session, row.turn, row.child),
        workspace=row.workspace,
        sandbox=row.sandbox,
        holder=row.holder,
        endpoint=row.endpoint,
        expire_time=from_micros(row.expire_time),
        create_time=from_micros(row.create_time),
        state=LeaseState(row.state),
        isolation=row.isolation,
        mount_root=row.mount_root,
        idle_since=from_micros(row.idle_since) if row.idle_since is not None else None,
        warm=row.warm,
        last_error=row.last_error,
        delete_attempts=row.delete_attempts,
        epoch=row.epoch,
    )
