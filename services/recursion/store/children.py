"""Children and the calls that asked for them: every change names the owner and its epoch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, and_, func, or_, update
from sqlalchemy.orm import Session
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from services.common.database import Database
from services.common.errors import FleetError
from services.common.ids import new_id
from services.recursion.budget.ledger import LedgerState
from services.recursion.children.outcomes import Outcome
from services.recursion.children.states import Call, Child, ChildState, Holder
from services.recursion.store.instants import from_micros, to_micros
from services.recursion.store.ledgers import read_ledger
from services.recursion.store.models import CallRow, ChildRow
from services.recursion.store.reservations import give_back, take
from services.recursion.store.statements import Through
from services.rlm.budget.gate import Dimension

_INSERT_CALL = (
    "INSERT INTO child_calls (turn, id, digest) SELECT turn, :id, :digest FROM ledgers WHERE turn = :turn"
    " ON CONFLICT (turn, id) DO NOTHING"
)
_OUTCOMES = TypeAdapter(Outcome)
_FIRST_EPOCH = 1


@dataclass(frozen=True)
class Claim:
    """How long a replica holds the rows that it writes: its id, the moment now and when the hold ends."""

    owner: str
    now: datetime
    expires_at: datetime


class ChildStore:
    """Reads and writes calls and children. Each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin_call(self, turn: str, call_id: str, digest: str, count: int, claim: Claim) -> tuple[Call, bool]:
        """Reserve `count` children and write them down as queued, all or none; or return the call of that id.

        The second value is whether the call was made by this.

        Raises:
            FleetError: LEDGER_NOT_FOUND, LEDGER_CLOSED, BUDGET_EXHAUSTED, or RESERVATION_CONFLICT for an id that
                belongs to a call with other tasks.
        """
        async with self._database.transaction() as session:

            def admit(inner: Session) -> bool:
                statements = Through(inner.connection())
                made = statements.change(_INSERT_CALL, {"turn": turn, "id": call_id, "digest": digest}) > 0
                if made:
                    take(statements, turn, Dimension.CHILD_CALLS, count, claim.now)
                return made

            if not await session.run_sync(admit):
                return await _known_call(session, turn, call_id, digest), False
            first = await _next_ordinal(session, turn)
            rows = [_queued(turn, call_id, position, first + position, claim) for position in range(count)]
            session.add_all(rows)
            return Call(turn, call_id, digest, tuple(_child_of(row) for row in rows)), True

    async def call(self, turn: str, call_id: str) -> Call | None:
        """Return a call as it is, or None."""
        async with self._database.reading() as session:
            row = await session.get(CallRow, (turn, call_id))
            return None if row is None else await _load_call(session, row)

    async def start(self, child: Child) -> None:
        """Note that a sandbox may exist from here on.

        Raises:
            FleetError: OWNERSHIP_LOST when another replica holds the child, TURN_CANCELLED when its Turn was aborted.
        """
        async with self._database.transaction() as session:
            ledger = await read_ledger(session, child.turn)
            if ledger.state is LedgerState.ABORTED:
                raise FleetError("TURN_CANCELLED", "The Turn was aborted.", {"turn": child.turn})
            await _write(session, child, (ChildState.QUEUED,), {"state": ChildState.RUNNING.value})

    async def finish(self, child: Child, outcome: Outcome, *, gone: bool, refund: bool) -> None:
        """Write a child's outcome.

        Args:
            child: the child.
            outcome: as it is returned.
            gone: whether there is no sandbox, so that the child has ended.
            refund: whether its reservation is given back.

        Raises:
            FleetError: OWNERSHIP_LOST when another replica holds the child or it has an outcome already.
        """
        state = ChildState.ENDED if gone else ChildState.CLEANING
        values = {"state": state.value, "outcome": _OUTCOMES.dump_json(outcome).decode(), "refunded": refund}
        async with self._database.transaction() as session:
            await _write(session, child, (ChildState.QUEUED, ChildState.RUNNING), values)
            if refund:
                await session.run_sync(
                    lambda inner: give_back(Through(inner.connection()), child.turn, Dimension.CHILD_CALLS, 1)
                )

    async def cleaned(self, child: Child, outcome: Outcome) -> None:
        """Note that a child's sandbox is confirmed gone.

        Raises:
            FleetError: OWNERSHIP_LOST when another replica holds the child or it has ended.
        """
        values = {"state": ChildState.ENDED.value, "outcome": _OUTCOMES.dump_json(outcome).decode()}
        async with self._database.transaction() as session:
            await _write(session, child, (ChildState.CLEANING,), values)

    async def renew(self, claim: Claim, running: Collection[str]) -> list[str]:
        """Prolong this replica's hold on the children that run here or are being cleaned up; return their ids.

        A hold that has run out is not prolonged: somebody else may be taking it. Nor is that of a child that this
        replica has lost sight of, so that it is taken over and settled.
        """
        cared_for = or_(col(ChildRow.id).in_(running), col(ChildRow.state) == ChildState.CLEANING.value)
        mine = and_(col(ChildRow.owner) == claim.owner, col(ChildRow.expires_at) > to_micros(claim.now))
        held = and_(mine, _live(), cared_for)
        statement = update(ChildRow).where(held).values(expires_at=to_micros(claim.expires_at))
        async with self._database.transaction() as session:
            rows = await session.exec(statement.returning(col(ChildRow.id)))
            return list(rows.scalars())

    async def take_over(self, claim: Claim, most: int, *, expired_only: bool = True) -> list[Child]:
        """Take over children whose holder let them expire, and return them as they are held from here on.

        Args:
            claim: who takes them, and until when.
            most: how many at most.
            expired_only: False takes every other holder's children, for a database that nobody else can be using.
        """
        theirs = (
            col(ChildRow.expires_at) <= to_micros(claim.now) if expired_only else col(ChildRow.owner) != claim.owner
        )
        free = and_(_live(), theirs)
        async with self._database.transaction() as session:
            found = select(ChildRow.id).where(free).order_by(col(ChildRow.expires_at)).limit(most)
            ids = list(await session.exec(found.with_for_update(skip_locked=True)))
            if not ids:
                return []
            values = {
                "owner": claim.owner,
                "epoch": col(ChildRow.epoch) + 1,
                "expires_at": to_micros(claim.expires_at),
            }
            await session.exec(update(ChildRow).where(col(ChildRow.id).in_(ids), free).values(values))
            rows = await session.exec(select(ChildRow).where(col(ChildRow.id).in_(ids), ChildRow.owner == claim.owner))
            return [_child_of(row) for row in rows]

    async def cleaning(self, owner: str) -> list[Child]:
        """Children of a holder whose sandbox isn't confirmed gone although their outcome is known."""
        statement = select(ChildRow).where(ChildRow.owner == owner, ChildRow.state == ChildState.CLEANING.value)
        async with self._database.reading() as session:
            return [_child_of(row) for row in await session.exec(statement)]


async def _write(
    session: AsyncSession, child: Child, states: Sequence[ChildState], values: Mapping[str, object]
) -> None:
    held = and_(
        col(ChildRow.id) == child.id,
        col(ChildRow.owner) == child.holder.owner,
        col(ChildRow.epoch) == child.holder.epoch,
        col(ChildRow.state).in_([state.value for state in states]),
    )
    changed = await session.exec(update(ChildRow).where(held).values(dict(values)))
    if changed.rowcount != 1:
        raise FleetError("OWNERSHIP_LOST", "Another replica took the child over.", {"child": child.id})


def _live() -> ColumnElement[bool]:
    return col(ChildRow.state) != ChildState.ENDED.value


async def _next_ordinal(session: AsyncSession, turn: str) -> int:
    """The next child's number; the line of child calls is locked by then, so that no two calls get the same."""
    statement = select(func.coalesce(func.max(ChildRow.ordinal), 0)).where(ChildRow.turn == turn)
    return int((await session.exec(statement)).one()) + 1


async def _known_call(session: AsyncSession, turn: str, call_id: str, digest: str) -> Call:
    row = await session.get(CallRow, (turn, call_id))
    if row is None:
        await read_ledger(session, turn)
        raise FleetError("UNAVAILABLE", "The call is being made by another request.")
    if row.digest != digest:
        message = "The call id belongs to a call with other tasks."
        raise FleetError("RESERVATION_CONFLICT", message, {"call_id": call_id})
    return await _load_call(session, row)


async def _load_call(session: AsyncSession, row: CallRow) -> Call:
    statement = select(ChildRow).where(ChildRow.turn == row.turn, ChildRow.call_id == row.id)
    children = await session.exec(statement.order_by(col(ChildRow.position)))
    return Call(row.turn, row.id, row.digest, tuple(_child_of(child) for child in children))


def _queued(turn: str, call_id: str, position: int, ordinal: int, claim: Claim) -> ChildRow:
    return ChildRow(
        id=new_id(),
        turn=turn,
        call_id=call_id,
        position=position,
        ordinal=ordinal,
        state=ChildState.QUEUED.value,
        owner=claim.owner,
        epoch=_FIRST_EPOCH,
        expires_at=to_micros(claim.expires_at),
    )


def _child_of(row: ChildRow) -> Child:
    return Child(
        id=row.id,
        turn=row.turn,
        call_id=row.call_id,
        position=row.position,
        ordinal=row.ordinal,
        state=ChildState(row.state),
        holder=Holder(row.owner, row.epoch),
        expires_at=from_micros(row.expires_at),
        outcome=None if row.outcome is None else _OUTCOMES.validate_json(row.outcome),
    )
