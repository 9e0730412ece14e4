"""A resident's runtime without a sandbox, and a clock that is moved by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from services.common.errors import FleetError


class ManualClock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class FakeRuntime:
    """Counts what is asked of it; `renewal` and `opening` are raised when set, `confirms` is what closing says."""

    opened: int = 0
    closed: int = 0
    confirms: bool = True
    opening: FleetError | None = None
    renewal: FleetError | None = None
    renewals: list[tuple[bool, str]] = field(default_factory=list)

    @property
    def live(self) -> bool:
        return self.opened > 0 and not (self.closed and self.confirms)

    async def open(self) -> None:
        self.opened += 1
        if self.opening is not None:
            raise self.opening

    async def renew(self, *, idle: bool, turn: str) -> None:
        if self.renewal is not None:
            raise self.renewal
        self.renewals.append((idle, turn))

    async def close(self) -> bool:
        self.closed += 1
        return self.confirms
