"""The event log in the database."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from services.common.database import Database
from services.session.events.turn_log import EventWrite, StoredEvent
from services.session.store.models import METADATA, EventRow, OwnerRow, TurnRow

_EVENTS = METADATA.tables[str(EventRow.__tablename__)]


class EventStore:
    """Implements `services.session.events.log.EventStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, writes: Sequence[EventWrite]) -> frozenset[str]:
        """Store the events in one transaction; returns the ids of Turns whose epoch moved or which have ended."""
        refused = set()
        async with self._database.transaction() as db:
            # Every transaction locks Sessions in the same order, so that none can wait for another in a circle.
            for write in sorted(writes, key=lambda each: each.turn.session):
                if await _takes_events(db, write):
                    await insert_events(db, write.turn.id, write.events)
                else:
                    refused.add(write.turn.id)
        return frozenset(refused)

    async def read(self, turn_id: str, after: int, limit: int) -> list[StoredEvent]:
        """Up to `limit` events after a sequence, in order."""
        statement = (
            select(EventRow)
            .where(col(EventRow.turn_id) == turn_id, col(EventRow.sequence) > after)
            .order_by(col(EventRow.sequence))
            .limit(limit)
        )
        async with self._database.reading() as db:
            rows = (await db.exec(statement)).all()
            return [StoredEvent(row.sequence, row.kind, row.time, row.data) for row in rows]

    async def last_sequence(self, turn_id: str) -> int:
        """The last stored sequence, 0 when there is none."""
        async with self._database.reading() as db:
            return await last_sequence(db, turn_id)

    async def is_ended(self, turn_id: str) -> bool:
        """Whether the Turn has ended or no longer exists."""
        statement = select(TurnRow.id).where(col(TurnRow.id) == turn_id, col(TurnRow.end_time).is_(None))
        async with self._database.reading() as db:
            return (await db.exec(statement)).first() is None


async def last_sequence(db: AsyncSession, turn_id: str) -> int:
    """The last stored sequence of a Turn, 0 when there is none."""
    statement = select(func.max(col(EventRow.sequence))).where(col(EventRow.turn_id) == turn_id)
    return (await db.exec(statement)).first() or 0


async def insert_events(db: AsyncSession, turn_id: str, events: Sequence[StoredEvent]) -> None:
    """Insert events; those that an earlier write has left already, its reply having been lost, are kept as they are."""
    insert = sqlite.insert if db.get_bind().dialect.name == "sqlite" else postgresql.insert
    rows = [
        {"turn_id": turn_id, "sequence": event.sequence, "kind": event.kind, "time": event.time, "data": event.data}
        for event in events
    ]
    if rows:
        # One statement for any number of rows: with the rows in it, each number would be compiled anew.
        await db.exec(insert(_EVENTS).on_conflict_do_nothing(), params=rows)


async def _takes_events(db: AsyncSession, write: EventWrite) -> bool:
    """Whether the Turn is running under the epoch of the write; both rows stay locked until the transaction ends."""
    turn = write.turn
    statement = (
        select(TurnRow.id)
        .select_from(OwnerRow)
        .join(TurnRow, col(TurnRow.session_id) == col(OwnerRow.session_id))
        .where(col(OwnerRow.session_id) == turn.session, col(OwnerRow.epoch) == turn.epoch)
        .where(col(TurnRow.id) == turn.id, col(TurnRow.end_time).is_(None))
        .with_for_update(read=True)
    )
    return (await db.exec(statement)).first() is not None
