"""Ownership of Sessions: rows that single atomic statements take, renew and give back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, or_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from services.common.database import Database
from services.session.refusals import session_not_found
from services.session.store.models import OwnerRow, TurnRow
from services.session.store.rows import turn_of
from services.session.turns.turn import Turn


@dataclass(frozen=True)
class Ownership:
    """Who runs a Session's Turns.

    Attributes:
        session: the Session's id.
        owner: the replica's id.
        address: where it is called.
        epoch: grows with every takeover.
        expires: UTC; another replica may take the Session afterwards.
    """

    session: str
    owner: str
    address: str
    epoch: int
    expires: datetime


class OwnerStore:
    """Reads and writes ownership rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, wanted: Ownership, now: datetime) -> Ownership:
        """Take or renew a Session for `wanted.owner` until `wanted.expires`.

        A Session without a row, or whose row has expired, is taken under the next epoch; an own one keeps its epoch.
        Returns the ownership in force, which is another's when that one is alive.

        Raises:
            FleetError: SESSION_NOT_FOUND.
        """
        values = {
            "session_id": wanted.session,
            "owner": wanted.owner,
            "address": wanted.address,
            "epoch": 1,
            "expires": wanted.expires,
        }
        row = OwnerRow
        try:
            async with self._database.transaction() as db:
                insert = sqlite.insert if db.get_bind().dialect.name == "sqlite" else postgresql.insert
                statement = insert(OwnerRow).values(values)
                await db.exec(
                    statement.on_conflict_do_update(
                        index_elements=["session_id"],
                        set_={
                            "owner": wanted.owner,
                            "address": wanted.address,
                            "expires": wanted.expires,
                            "epoch": case((col(row.owner) == wanted.owner, row.epoch), else_=col(row.epoch) + 1),
                        },
                        where=or_(col(row.owner) == wanted.owner, col(row.expires) <= now),
                    )
                )
                found = (await db.exec(select(OwnerRow).where(col(row.session_id) == wanted.session))).one()
                return Ownership(found.session_id, found.owner, found.address, found.epoch, found.expires)
        except IntegrityError as error:
            raise session_not_found(wanted.session) from error

    async def renew(self, owner: str, sessions: Collection[str], expires: datetime) -> frozenset[str]:
        """Renew own Sessions; returns those that are still own."""
        if not sessions:
            return frozenset()
        statement = (
            update(OwnerRow)
            .where(col(OwnerRow.owner) == owner, col(OwnerRow.session_id).in_(sessions))
            .values(expires=expires)
            .returning(col(OwnerRow.session_id))
        )
        async with self._database.transaction() as db:
            return frozenset((await db.exec(statement)).scalars().all())

    async def release(self, owner: str, now: datetime) -> None:
        """Give back every own Session, so that another replica may take it at once."""
        async with self._database.transaction() as db:
            await db.exec(update(OwnerRow).where(col(OwnerRow.owner) == owner).values(expires=now))

    async def expire_others(self, owner: str, now: datetime) -> None:
        """End every other replica's ownership; only for who has proof that no other replica is alive."""
        statement = update(OwnerRow).where(col(OwnerRow.owner) != owner, col(OwnerRow.expires) > now)
        async with self._database.transaction() as db:
            await db.exec(statement.values(expires=now))

    async def orphans(self, owner: str, now: datetime, limit: int) -> list[Turn]:
        """Running Turns whose Session's owner is another that has expired, oldest first."""
        statement = (
            select(TurnRow)
            .join(OwnerRow, col(OwnerRow.session_id) == col(TurnRow.session_id))
            .where(col(TurnRow.end_time).is_(None), col(OwnerRow.owner) != owner, col(OwnerRow.expires) <= now)
            .order_by(col(TurnRow.create_time))
            .limit(limit)
        )
        async with self._database.reading() as db:
            return [turn_of(row) for row in (await db.exec(statement)).all()]
