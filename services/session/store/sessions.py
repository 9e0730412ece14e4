"""Sessions in the database."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import and_, delete, or_
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from services.common.database import Database
from services.session import refusals
from services.session.sessions.session import Session, SessionPatch, SessionState
from services.session.store.models import EventRow, OwnerRow, SessionRow, TurnAttachmentRow, TurnRow
from services.session.store.rows import row_of_session, session_of


class SessionStore:
    """Reads and writes Sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert(self, session: Session) -> None:
        """Store a Session that was just made."""
        async with self._database.transaction() as db:
            db.add(row_of_session(session))

    async def get(self, workspace: str, session_id: str) -> Session:
        """A Session of a workspace.

        Raises:
            FleetError: SESSION_NOT_FOUND.
        """
        async with self._database.reading() as db:
            return await read_session(db, workspace, session_id)

    async def page(
        self, workspace: str, state: SessionState | None, after: tuple[datetime, str] | None, limit: int
    ) -> list[Session]:
        """Up to `limit` Sessions, latest update first, after the one with that update time and id."""
        time, key = col(SessionRow.update_time), col(SessionRow.id)
        statement = (
            select(SessionRow, TurnRow.id)
            .outerjoin(TurnRow, and_(col(TurnRow.session_id) == key, col(TurnRow.end_time).is_(None)))
            .where(col(SessionRow.workspace) == workspace)
            .order_by(time.desc(), key.desc())
            .limit(limit)
        )
        if state is not None:
            statement = statement.where(col(SessionRow.state) == state.value)
        if after is not None:
            statement = statement.where(or_(time < after[0], and_(time == after[0], key < after[1])))
        async with self._database.reading() as db:
            return [session_of(row, running) for row, running in (await db.exec(statement)).all()]

    async def update(self, workspace: str, session_id: str, patch: SessionPatch, etag: str, now: datetime) -> Session:
        """Set the fields of a patch; an etag that isn't empty must match.

        Raises:
            FleetError: SESSION_NOT_FOUND, ETAG_MISMATCH, or TURN_IN_PROGRESS for archiving during a Turn.
        """
        async with self._database.transaction() as db:
            row = await _locked(db, workspace, session_id)
            running = await running_turn(db, session_id)
            if etag and etag != session_of(row, running).etag:
                raise refusals.etag_mismatch(session_id)
            if patch.state is SessionState.ARCHIVED and running is not None:
                raise refusals.turn_in_progress(session_id, running)
            row.title = row.title if patch.title is None else patch.title
            row.labels = row.labels if patch.labels is None else dict(patch.labels)
            row.state = row.state if patch.state is None else patch.state.value
            row.revision += 1
            row.update_time = now
            db.add(row)
            return session_of(row, running)

    async def delete(self, workspace: str, session_id: str) -> None:
        """Delete a Session with its Turns and events.

        Raises:
            FleetError: SESSION_NOT_FOUND, or TURN_IN_PROGRESS.
        """
        turns = select(TurnRow.id).where(col(TurnRow.session_id) == session_id).scalar_subquery()
        async with self._database.transaction() as db:
            await _locked(db, workspace, session_id)
            running = await running_turn(db, session_id)
            if running is not None:
                raise refusals.turn_in_progress(session_id, running)
            await db.exec(delete(EventRow).where(col(EventRow.turn_id).in_(turns)))
            await db.exec(delete(TurnAttachmentRow).where(col(TurnAttachmentRow.turn_id).in_(turns)))
            await db.exec(delete(TurnRow).where(col(TurnRow.session_id) == session_id))
            await db.exec(delete(OwnerRow).where(col(OwnerRow.session_id) == session_id))
            await db.exec(delete(SessionRow).where(col(SessionRow.id) == session_id))


async def running_turn(db: AsyncSession, session_id: str) -> str | None:
    """The id of the Session's running Turn."""
    statement = select(TurnRow.id).where(col(TurnRow.session_id) == session_id, col(TurnRow.end_time).is_(None))
    return (await db.exec(statement)).first()


async def read_session(db: AsyncSession, workspace: str, session_id: str) -> Session:
    """A Session of a workspace, inside a transaction.

    Raises:
        FleetError: SESSION_NOT_FOUND.
    """
    row = (await db.exec(_one(workspace, session_id))).first()
    if row is None:
        raise refusals.session_not_found(session_id)
    return session_of(row, await running_turn(db, session_id))


def _one(workspace: str, session_id: str) -> SelectOfScalar[SessionRow]:
    return select(SessionRow).where(col(SessionRow.id) == session_id, col(SessionRow.workspace) == workspace)


async def _locked(db: AsyncSession, workspace: str, session_id: str) -> SessionRow:
    """A Session's row, locked after its ownership, in the order that every writer keeps."""
    await db.exec(select(OwnerRow.epoch).where(col(OwnerRow.session_id) == session_id).with_for_update())
    row = (await db.exec(_one(workspace, session_id).with_for_update())).first()
    if row is None:
        raise refusals.session_not_found(session_id)
    return row
