"""The ownership epoch in every write of a Turn."""

from __future__ import annotations

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
