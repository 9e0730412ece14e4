"""The end of a Turn: its state and its last events in one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from google.protobuf.message import Message
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from services.common.database import Database
from services.common.errors import FleetError
from services.session.events.turn_log import StoredEvent, make_event
from services.session.store.events import insert_events, last_sequence
from services.session.store.fence import running
from services.session.store.models import SessionRow, TurnRow
from services.session.store.rows import budget_json, turn_of, usage_json
from services.session.turns.spending import Spent
from services.session.turns.turn import Commit, Turn, TurnEnd, TurnState

LastEvents = Callable[[Turn, int], Sequence[tuple[str, Message]]]
"""Makes the last events of a Turn that has ended: from the Turn and its Session's checkpoint version, pairs of kind
and payload."""


@dataclass(frozen=True)
class Ended:
    """A Turn that has ended, the events that its transaction stored, and its Session's checkpoint version."""

    turn: Turn
    events: tuple[StoredEvent, ...]
    checkpoint_version: int


class EndingStore:
    """Ends running Turns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def commit(self, turn: Turn, epoch: int, commit: Commit, now: datetime, last_events: LastEvents) -> Ended:
        """Complete a SETTLING Turn: answer, outputs, account, history, checkpoint and last events.

        Raises:
            FleetError: OWNERSHIP_LOST, or COMMIT_FAILED when the database refused.
            ValueError: the Turn isn't SETTLING.
        """
        async with _transaction(self._database) as db:
            row = await running(db, turn.session, turn.id, epoch)
            if not TurnState(row.state).may_become(TurnState.COMPLETED):
                raise ValueError(f"a Turn that is {row.state} can't be committed")
            session = await _locked_session(db, turn.session)
            session.checkpoint_version += 1
            session.revision += 1
            session.update_time = now
            row.state = TurnState.COMPLETED.value
            row.answer = commit.answer
            row.outputs = dict(commit.outputs)
            row.termination = commit.termination.value
            row.checkpoint_version = session.checkpoint_version
            _close(row, commit.spent, commit.trace_id, now)
            db.add(session)
            return await _finish(db, row, session.checkpoint_version, now, last_events)

    async def end(self, turn: Turn, epoch: int, end: TurnEnd, now: datetime, last_events: LastEvents) -> Ended:
        """End a running Turn without an answer: state, error, account and last event.

        Raises:
            FleetError: OWNERSHIP_LOST, or COMMIT_FAILED when the database refused.
        """
        async with _transaction(self._database) as db:
            row = await running(db, turn.session, turn.id, epoch)
            version = select(SessionRow.checkpoint_version).where(col(SessionRow.id) == turn.session)
            row.state = end.state.value
            row.error = {"reason": end.error.reason, "message": end.error.message}
            _close(row, end.spent, end.trace_id, now)
            return await _finish(db, row, (await db.exec(version)).one(), now, last_events)


@asynccontextmanager
async def _transaction(database: Database) -> AsyncIterator[AsyncSession]:
    try:
        async with database.transaction() as db:
            yield db
    except (SQLAlchemyError, OSError) as error:
        raise _not_stored() from error
    except FleetError as error:
        if error.reason != "UNAVAILABLE":
            raise
        raise _not_stored() from error


def _not_stored() -> FleetError:
    return FleetError("COMMIT_FAILED", "The end of the Turn could not be stored.")


async def _locked_session(db: AsyncSession, session_id: str) -> SessionRow:
    return (await db.exec(select(SessionRow).where(col(SessionRow.id) == session_id).with_for_update())).one()


def _close(row: TurnRow, spent: Spent, trace_id: str, now: datetime) -> None:
    row.end_time = now
    row.usage = usage_json(spent.usage)
    row.budget = budget_json(spent.budget) if spent.budget else row.budget
    row.iterations = max(row.iterations, spent.iterations)
    row.trace_id = trace_id


async def _finish(db: AsyncSession, row: TurnRow, version: int, now: datetime, last_events: LastEvents) -> Ended:
    db.add(row)
    await db.flush()
    ended = turn_of(row)
    sequence = await last_sequence(db, row.id) + 1
    events = tuple(
        make_event(ended.name, sequence + place, now, kind, payload)
        for place, (kind, payload) in enumerate(last_events(ended, version))
    )
    await insert_events(db, row.id, events)
    return Ended(ended, events, version)
