"""The beginning of a Turn: one transaction under the database's own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from services.common.database import Database
from services.session import refusals
from services.session.attachments.attachment import Attachment
from services.session.events.turn_log import StoredEvent
from services.session.sessions.session import Session, SessionState
from services.session.store.attachments import read_attachments
from services.session.store.events import insert_events
from services.session.store.fence import holds
from services.session.store.models import SessionRow, TurnAttachmentRow, TurnRow
from services.session.store.rows import row_of_turn, session_of, turn_of
from services.session.store.sessions import running_turn
from services.session.turns.turn import Turn


@dataclass(frozen=True)
class Admitted:
    """The outcome of an admission.

    Attributes:
        turn: the Turn that was stored, or the one that the request id belongs to already.
        session: its Session, with that Turn running.
        attachments: in the client's order; empty for an earlier Turn.
        fresh: whether the Turn was stored by this call and is to be run.
    """

    turn: Turn
    session: Session
    attachments: tuple[Attachment, ...]
    fresh: bool


class AdmissionStore:
    """Stores Turns that are to be run."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def admit(self, turn: Turn, first_events: Sequence[StoredEvent]) -> Admitted:
        """Store a QUEUED Turn with its first events, unless its request id belongs to a Turn.

        Raises:
            FleetError: OWNERSHIP_LOST, SESSION_NOT_FOUND, SESSION_ARCHIVED, TURN_IN_PROGRESS, ATTACHMENT_NOT_FOUND.
        """
        async with self._database.transaction() as db:
            if not await holds(db, turn.session, turn.epoch):
                raise refusals.ownership_lost(turn.id)
            session = await _locked_session(db, turn)
            earlier = await _earlier(db, turn)
            if earlier is not None:
                return Admitted(earlier, session, (), fresh=False)
            if session.state is SessionState.ARCHIVED:
                raise refusals.session_archived(session.id)
            if session.running_turn is not None:
                raise refusals.turn_in_progress(session.id, session.running_turn)
            attachments = await read_attachments(db, turn.workspace, turn.input.attachments)
            db.add(row_of_turn(turn))
            await db.flush()
            for attachment in attachments:
                db.add(TurnAttachmentRow(turn_id=turn.id, attachment_id=attachment.id))
            await insert_events(db, turn.id, first_events)
            return Admitted(turn, session, attachments, fresh=True)


async def _locked_session(db: AsyncSession, turn: Turn) -> Session:
    """The Turn's Session, locked: two admissions of one Session come one after the other."""
    statement = (
        select(SessionRow)
        .where(col(SessionRow.id) == turn.session, col(SessionRow.workspace) == turn.workspace)
        .with_for_update()
    )
    row = (await db.exec(statement)).first()
    if row is None:
        raise refusals.session_not_found(turn.session)
    return session_of(row, await running_turn(db, turn.session))


async def _earlier(db: AsyncSession, turn: Turn) -> Turn | None:
    statement = select(TurnRow).where(
        col(TurnRow.session_id) == turn.session, col(TurnRow.request_id) == turn.request_id
    )
    row = (await db.exec(statement)).first()
    return None if row is None else turn_of(row)
