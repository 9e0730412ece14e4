"""Turns in the database: admission, progress and ends. Every write names the ownership epoch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, or_, update
from sqlmodel import col, select

from services.common.database import Database
from services.session import refusals
from services.session.store.fence import is_running, running
from services.session.store.models import TurnRow
from services.session.store.rows import budget_json, turn_of
from services.session.turns.spending import BudgetLine
from services.session.turns.turn import HistoryRecord, Turn, TurnState


class TurnStore:
    """Reads Turns and moves running ones; `admission` and `endings` hold their beginning and end."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, workspace: str, turn_id: str, session_id: str | None = None) -> Turn:
        """A Turn of a workspace, and of one Session when that is given.

        Raises:
            FleetError: TURN_NOT_FOUND.
        """
        statement = select(TurnRow).where(col(TurnRow.id) == turn_id, col(TurnRow.workspace) == workspace)
        if session_id is not None:
            statement = statement.where(col(TurnRow.session_id) == session_id)
        async with self._database.reading() as db:
            row = (await db.exec(statement)).first()
            if row is None:
                raise refusals.turn_not_found(turn_id)
            return turn_of(row)

    async def find_request(self, session_id: str, request_id: str) -> Turn | None:
        """The Turn that a request id belongs to."""
        statement = select(TurnRow).where(col(TurnRow.session_id) == session_id, col(TurnRow.request_id) == request_id)
        async with self._database.reading() as db:
            row = (await db.exec(statement)).first()
            return None if row is None else turn_of(row)

    async def page(self, session_id: str, after: tuple[datetime, str] | None, limit: int) -> list[Turn]:
        """Up to `limit` Turns of a Session, oldest first, after the one with that time and id."""
        time, key = col(TurnRow.create_time), col(TurnRow.id)
        statement = select(TurnRow).where(col(TurnRow.session_id) == session_id).order_by(time, key).limit(limit)
        if after is not None:
            statement = statement.where(or_(time > after[0], and_(time == after[0], key > after[1])))
        async with self._database.reading() as db:
            return [turn_of(row) for row in (await db.exec(statement)).all()]

    async def history(self, session_id: str) -> tuple[HistoryRecord, ...]:
        """Every committed Turn of a Session in the order of its commits."""
        statement = (
            select(TurnRow.text, TurnRow.answer)
            .where(col(TurnRow.session_id) == session_id, col(TurnRow.state) == TurnState.COMPLETED.value)
            .order_by(col(TurnRow.checkpoint_version))
        )
        async with self._database.reading() as db:
            return tuple(HistoryRecord(text, answer or "") for text, answer in (await db.exec(statement)).all())

    async def set_state(self, turn: Turn, epoch: int, state: TurnState, now: datetime) -> None:
        """Move a running Turn to a later running state; its preparation sets the start time.

        Raises:
            FleetError: OWNERSHIP_LOST.
            ValueError: the Turn's state doesn't lead there.
        """
        started = {"start_time": now} if state is TurnState.PREPARING else {}
        before = [step.value for step in TurnState if step.may_become(state) and not state.terminal]
        change = (
            update(TurnRow)
            .where(is_running(turn.session, turn.id, epoch), col(TurnRow.state).in_(before))
            .values(state=state.value, **started)
        )
        async with self._database.transaction() as db:
            if not (await db.exec(change)).rowcount:
                row = await running(db, turn.session, turn.id, epoch)
                raise ValueError(f"a Turn that is {row.state} can't become {state}")

    async def progress(self, turn: Turn, epoch: int, iterations: int, budget: Sequence[BudgetLine]) -> None:
        """Record how far a running Turn is.

        Raises:
            FleetError: OWNERSHIP_LOST.
        """
        change = (
            update(TurnRow)
            .where(is_running(turn.session, turn.id, epoch))
            .values(iterations=iterations, budget=budget_json(budget))
        )
        async with self._database.transaction() as db:
            if not (await db.exec(change)).rowcount:
                raise refusals.ownership_lost(turn.id)
