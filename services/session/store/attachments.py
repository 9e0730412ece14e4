"""Attachments' metadata in the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, delete, or_
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from services.common.database import Database
from services.session import refusals
from services.session.attachments.attachment import Attachment
from services.session.store.models import AttachmentRow, TurnAttachmentRow, TurnRow
from services.session.store.rows import attachment_of, row_of_attachment


class AttachmentStore:
    """Reads and writes attachments' metadata."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert(self, attachment: Attachment) -> None:
        """Store an attachment whose bytes are stored already."""
        async with self._database.transaction() as db:
            db.add(row_of_attachment(attachment))

    async def get(self, workspace: str, attachment_id: str) -> Attachment:
        """An attachment of a workspace.

        Raises:
            FleetError: ATTACHMENT_NOT_FOUND.
        """
        return (await self.get_all(workspace, [attachment_id]))[0]

    async def get_all(self, workspace: str, attachment_ids: Sequence[str]) -> tuple[Attachment, ...]:
        """Attachments of a workspace in the given order.

        Raises:
            FleetError: ATTACHMENT_NOT_FOUND naming every missing one.
        """
        async with self._database.reading() as db:
            return await read_attachments(db, workspace, attachment_ids)

    async def page(self, workspace: str, after: tuple[datetime, str] | None, limit: int) -> list[Attachment]:
        """Up to `limit` attachments, latest first, after the one with that time and id."""
        time, key = col(AttachmentRow.create_time), col(AttachmentRow.id)
        statement = (
            select(AttachmentRow)
            .where(col(AttachmentRow.workspace) == workspace)
            .order_by(time.desc(), key.desc())
            .limit(limit)
        )
        if after is not None:
            statement = statement.where(or_(time < after[0], and_(time == after[0], key < after[1])))
        async with self._database.reading() as db:
            return [attachment_of(row) for row in (await db.exec(statement)).all()]

    async def delete(self, workspace: str, attachment_id: str) -> Attachment:
        """Delete an attachment's row, and return what it was.

        Raises:
            FleetError: ATTACHMENT_NOT_FOUND, or ATTACHMENT_IN_USE while a running Turn uses it.
        """
        statement = (
            select(AttachmentRow)
            .where(col(AttachmentRow.id) == attachment_id, col(AttachmentRow.workspace) == workspace)
            .with_for_update()
        )
        async with self._database.transaction() as db:
            row = (await db.exec(statement)).first()
            if row is None:
                raise refusals.attachment_not_found([attachment_id])
            user = await _running_user(db, attachment_id)
            if user is not None:
                raise refusals.attachment_in_use(attachment_id, *user)
            await db.exec(delete(AttachmentRow).where(col(AttachmentRow.id) == attachment_id))
            return attachment_of(row)


async def read_attachments(db: AsyncSession, workspace: str, attachment_ids: Sequence[str]) -> tuple[Attachment, ...]:
    """Attachments in the given order, locked against deletion until the transaction ends.

    Raises:
        FleetError: ATTACHMENT_NOT_FOUND naming every missing one.
    """
    statement = (
        select(AttachmentRow)
        .where(col(AttachmentRow.id).in_(attachment_ids), col(AttachmentRow.workspace) == workspace)
        .with_for_update(read=True)
    )
    found = {row.id: attachment_of(row) for row in (await db.exec(statement)).all()} if attachment_ids else {}
    missing = [each for each in attachment_ids if each not in found]
    if missing:
        raise refusals.attachment_not_found(missing)
    return tuple(found[each] for each in attachment_ids)


async def _running_user(db: AsyncSession, attachment_id: str) -> tuple[str, str] | None:
    """Session and Turn ids of a running Turn that was given the attachment."""
    statement = (
        select(TurnRow.session_id, TurnRow.id)
        .join(TurnAttachmentRow, col(TurnAttachmentRow.turn_id) == col(TurnRow.id))
        .where(col(TurnAttachmentRow.attachment_id) == attachment_id, col(TurnRow.end_time).is_(None))
        .limit(1)
    )
    return (await db.exec(statement)).first()
