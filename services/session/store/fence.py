"""The ownership epoch in every write of a Turn."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, exists
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from services.session.refusals import ownership_lost
from services.session.store.models import OwnerRow, TurnRow


async def holds(db: AsyncSession, session_id: str, epoch: int) -> bool:
    """Whether `epoch` is the Session's; the row stays locked against a takeover until the transaction ends."""
    statement = select(OwnerRow.epoch).where(col(OwnerRow.session_id) == session_id).with_for_update(read=True)
    return (await db.exec(statement)).first() == epoch


async def running(db: AsyncSession, session_id: str, turn_id: str, epoch: int) -> TurnRow:
    """The row of a running Turn, locked, for a writer of `epoch`.

    Raises:
        FleetError: OWNERSHIP_LOST, when the epoch moved or the Turn has ended.
    """
    if not await holds(db, session_id, epoch):
        raise ownership_lost(turn_id)
    statement = select(TurnRow).where(col(TurnRow.id) == turn_id, col(TurnRow.end_time).is_(None)).with_for_update()
    row = (await db.exec(statement)).first()
    if row is None:
        raise ownership_lost(turn_id)
    return row


def is_running(session_id: str, turn_id: str, epoch: int) -> ColumnElement[bool]:
    """The condition of a single UPDATE of a Turn: it is running, and `epoch` is its Session's.

    Enough without a lock on the Session: whoever takes it over goes on from the Turn's row, before or after the UPDATE.
    """
    owned = exists().where(col(OwnerRow.session_id) == session_id, col(OwnerRow.epoch) == epoch)
    return and_(col(TurnRow.id) == turn_id, col(TurnRow.end_time).is_(None), owned)
