"""A Turn's record in memory, with ends that can be made to fail."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import Message

from services.common.errors import FleetError
from services.session.turns.spending import BudgetLine
from services.session.turns.turn import Commit, HistoryRecord, TurnEnd, TurnState


class MemoryRecord:
    """Implements `services.session.runner.TurnRecord`; keeps the rules of states and of the one end."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Message]] = []
        self.states = [TurnState.QUEUED]
        self.committed: Commit | None = None
        self.ended: TurnEnd | None = None
        self.progressed: list[int] = []
        self.commit_failure: Exception | None = None
        self.end_failures: list[Exception] = []
        self.earlier: tuple[HistoryRecord, ...] = ()

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]

    @property
    def over(self) -> bool:
        return self.committed is not None or self.ended is not None

    def append(self, kind: str, payload: Message) -> None:
        if not self.over:
            self.events.append((kind, payload))

    async def flush(self) -> None:
        return

    async def enter(self, state: TurnState, detail: str = "") -> None:
        self._check()
        assert self.states[-1].may_become(state), f"{self.states[-1]} → {state}"
        self.states.append(state)

    async def progress(self, iterations: int, budget: Sequence[BudgetLine]) -> None:
        self._check()
        self.progressed.append(iterations)

    async def history(self) -> tuple[HistoryRecord, ...]:
        return self.earlier

    async def commit(self, commit: Commit) -> int:
        self._check()
        assert self.states[-1] is TurnState.SETTLING
        if self.commit_failure is not None:
            raise self.commit_failure
        self.committed = commit
        return 1

    async def end(self, end: TurnEnd) -> None:
        if self.end_failures:
            raise self.end_failures.pop(0)
        self._check()
        self.ended = end

    def _check(self) -> None:
        if self.over:
            raise FleetError("OWNERSHIP_LOST", "The Turn has ended.")
