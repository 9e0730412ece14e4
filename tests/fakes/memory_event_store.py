"""An event store in memory that keeps the store's rules, and can be made to fail."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from services.session.events.turn_log import EventWrite, StoredEvent


class MemoryEventStore:
    """Implements `services.session.events.log.EventStore`."""

    def __init__(self) -> None:
        self.rows: defaultdict[str, list[StoredEvent]] = defaultdict(list)
        self.ended: set[str] = set()
        self.refused: set[str] = set()
        self.failures = 0
        self.writes: list[int] = []
        self.reads = 0
        self.open = asyncio.Event()
        self.open.set()

    async def append(self, writes: Sequence[EventWrite]) -> frozenset[str]:
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("the database is down")
        self.writes.append(sum(len(write.events) for write in writes))
        for write in writes:
            if write.turn.id not in self.refused:
                self.insert(write.turn.id, write.events)
        return frozenset(write.turn.id for write in writes if write.turn.id in self.refused)

    def insert(self, turn_id: str, events: Sequence[StoredEvent]) -> None:
        rows = self.rows[turn_id]
        for event in events:
            assert event.sequence == len(rows) + 1, "sequences have no gaps and none comes twice"
            rows.append(event)

    async def read(self, turn_id: str, after: int, limit: int) -> list[StoredEvent]:
        self.reads += 1
        return self.rows[turn_id][after : after + limit]

    async def last_sequence(self, turn_id: str) -> int:
        return len(self.rows[turn_id])

    async def is_ended(self, turn_id: str) -> bool:
        return turn_id in self.ended
