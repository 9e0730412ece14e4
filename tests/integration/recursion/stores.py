"""The recursion service's stores over one database, and ledgers to put into them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from services.common.database import Database
from services.recursion.budget.ledger import Ledger, LedgerState, Line
from services.recursion.store.children import ChildStore, Claim
from services.recursion.store.ledgers import LedgerStore
from services.recursion.store.reservations import ReservationStore
from services.recursion.store.statements import transactions
from services.rlm.budget.gate import Dimension

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Stores:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.transactions = transactions(database)
        self.ledgers = LedgerStore(database)
        self.reservations = ReservationStore(self.transactions)
        self.children = ChildStore(database)

    async def used(self, turn: str, dimension: Dimension) -> int:
        ledger = await self.ledgers.get(turn)
        return next(line.used for line in ledger.lines if line.dimension is dimension)


def ledger(turn: str, limits: Mapping[Dimension, int], **changes: object) -> Ledger:
    terms: dict[str, object] = {
        "turn": turn,
        "session": "s1",
        "workspace": "local",
        "epoch": 1,
        "state": LedgerState.OPEN,
        "deadline": NOW + timedelta(hours=1),
        "work_deadline": NOW + timedelta(minutes=50),
        "lines": tuple(Line(dimension, limit) for dimension, limit in limits.items()),
    }
    return Ledger(**{**terms, **changes})  # type: ignore[arg-type]


def claim(owner: str = "replica-a", *, now: datetime = NOW, seconds: float = 60.0) -> Claim:
    return Claim(owner, now, now + timedelta(seconds=seconds))
