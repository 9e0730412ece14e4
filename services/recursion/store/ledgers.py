"""Ledgers in the database: opening, reading and ending them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from services.common.database import Database
from services.common.errors import FleetError
from services.recursion.budget.ledger import Ledger, LedgerState, Line, closed, not_found
from services.recursion.store.instants import from_micros, to_micros
from services.recursion.store.models import ChildRow, LedgerRow, LineRow
from services.rlm.budget.gate import Dimension


class LedgerStore:
    """Reads and writes ledgers. Each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, ledger: Ledger) -> Ledger:
        """Write a ledger, or return the one that was opened on the same terms.

        Raises:
            FleetError: LEDGER_CONFLICT for other terms, LEDGER_CLOSED when it is not open any more.
        """
        try:
            await self._insert(ledger)
        except IntegrityError:
            known = await self.get(ledger.turn)
        else:
            return ledger
        if not known.same_terms(ledger):
            raise FleetError("LEDGER_CONFLICT", "The Turn's budget was opened on other terms.", {"turn": ledger.turn})
        if known.state is not LedgerState.OPEN:
            raise closed(known.turn, known.state)
        return known

    async def _insert(self, ledger: Ledger) -> None:
        async with self._database.transaction() as session:
            session.add(_row_of(ledger))
            await session.flush()
            session.add_all(_line_of(ledger, line) for line in ledger.lines)

    async def get(self, turn: str) -> Ledger:
        """Return a ledger.

        Raises:
            FleetError: LEDGER_NOT_FOUND.
        """
        async with self._database.reading() as session:
            return await read_ledger(session, turn)

    async def begin_settling(self, turn: str) -> Ledger:
        """Stop granting; nothing changes when the ledger is settling or settled already.

        Raises:
            FleetError: LEDGER_NOT_FOUND, or LEDGER_CLOSED when it was aborted.
        """
        async with self._database.transaction() as session:
            ledger = await read_ledger(session, turn, lock=True)
            if ledger.state is LedgerState.ABORTED:
                raise closed(turn, ledger.state)
            if ledger.state is LedgerState.OPEN:
                await _move(session, turn, LedgerState.SETTLING, None)
                return await read_ledger(session, turn)
            return ledger

    async def settle(self, turn: str, now: datetime) -> Ledger:
        """Settle a ledger that is settling, if no child of the Turn is unresolved; return it as it is then.

        Raises:
            FleetError: LEDGER_NOT_FOUND, or LEDGER_CLOSED when it was aborted.
        """
        async with self._database.transaction() as session:
            ledger = await read_ledger(session, turn, lock=True)
            if ledger.state is LedgerState.ABORTED:
                raise closed(turn, ledger.state)
            if ledger.state is LedgerState.SETTLING and not await unresolved_of(session, turn):
                await _move(session, turn, LedgerState.SETTLED, now)
                return await read_ledger(session, turn)
            return ledger

    async def abort(self, turn: str, epoch: int | None, now: datetime) -> Ledger:
        """End a ledger without settlement, unless it has ended.

        Args:
            turn: the Turn's id.
            epoch: the Session's ownership epoch as the caller knows it, None for the service itself.
            now: when it ends.

        Raises:
            FleetError: LEDGER_NOT_FOUND, or OWNERSHIP_LOST for an epoch older than the ledger's.
        """
        async with self._database.transaction() as session:
            ledger = await read_ledger(session, turn, lock=True)
            if epoch is not None and epoch < ledger.epoch:
                message = f"The Session's ownership moved on: epoch {epoch} is older than {ledger.epoch}."
                raise FleetError("OWNERSHIP_LOST", message, {"turn": turn, "epoch": str(ledger.epoch)})
            if not ledger.state.ended:
                await _move(session, turn, LedgerState.ABORTED, now)
            if epoch is not None and epoch > ledger.epoch:
                await session.exec(update(LedgerRow).where(col(LedgerRow.turn) == turn).values(epoch=epoch))
            return await read_ledger(session, turn)

    async def overdue(self, before: datetime, most: int) -> list[str]:
        """Turns whose ledger is not ended although its deadline was before that moment."""
        live = (LedgerState.OPEN, LedgerState.SETTLING)
        async with self._database.reading() as session:
            rows = await session.exec(
                select(LedgerRow.turn)
                .where(col(LedgerRow.state).in_(live), col(LedgerRow.deadline) < to_micros(before))
                .limit(most)
            )
            return list(rows)

    async def unresolved(self, turn: str) -> list[str]:
        """Ids of the Turn's children without a confirmed end."""
        async with self._database.reading() as session:
            return await unresolved_of(session, turn)


async def read_ledger(session: AsyncSession, turn: str, *, lock: bool = False) -> Ledger:
    """Read a ledger inside a transaction.

    Raises:
        FleetError: LEDGER_NOT_FOUND.
    """
    statement = select(LedgerRow).where(LedgerRow.turn == turn).execution_options(populate_existing=True)
    row = (await session.exec(statement.with_for_update() if lock else statement)).one_or_none()
    if row is None:
        raise not_found(turn)
    return await _load(session, row)


async def unresolved_of(session: AsyncSession, turn: str) -> list[str]:
    """Ids of the Turn's children without a confirmed end, inside a transaction."""
    statement = select(ChildRow.id).where(ChildRow.turn == turn, ChildRow.state != "ended")
    return list(await session.exec(statement.order_by(col(ChildRow.ordinal))))


async def _move(session: AsyncSession, turn: str, state: LedgerState, now: datetime | None) -> None:
    """Change the state and stop every line from granting: what reserves changes a line, so it sees this in order."""
    closed_at = None if now is None else to_micros(now)
    await session.exec(
        update(LedgerRow).where(col(LedgerRow.turn) == turn).values(state=state.value, closed_at=closed_at)
    )
    await session.exec(update(LineRow).where(col(LineRow.turn) == turn).values(open_until=0))


async def _load(session: AsyncSession, row: LedgerRow) -> Ledger:
    statement = select(LineRow).where(LineRow.turn == row.turn).execution_options(populate_existing=True)
    return _ledger_of(row, list(await session.exec(statement)))


def _ledger_of(row: LedgerRow, lines: Sequence[LineRow]) -> Ledger:
    by_name = {line.dimension: line for line in lines}
    return Ledger(
        turn=row.turn,
        session=row.session,
        workspace=row.workspace,
        epoch=row.epoch,
        state=LedgerState(row.state),
        deadline=from_micros(row.deadline),
        work_deadline=from_micros(row.work_deadline),
        lines=tuple(
            Line(dimension, by_name[dimension].allowed, by_name[dimension].used)
            for dimension in Dimension
            if dimension in by_name
        ),
        closed_at=None if row.closed_at is None else from_micros(row.closed_at),
    )


def _row_of(ledger: Ledger) -> LedgerRow:
    return LedgerRow(
        turn=ledger.turn,
        session=ledger.session,
        workspace=ledger.workspace,
        epoch=ledger.epoch,
        state=ledger.state.value,
        deadline=to_micros(ledger.deadline),
        work_deadline=to_micros(ledger.work_deadline),
    )


def _line_of(ledger: Ledger, line: Line) -> LineRow:
    return LineRow(
        turn=ledger.turn,
        dimension=line.dimension.value,
        allowed=line.limit,
        open_until=to_micros(ledger.deadline),
    )
