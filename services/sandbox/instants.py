"""Times as the database keeps them: microseconds since 1970 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_START = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(moment: datetime) -> int:
    """Return the microseconds since 1970, exactly."""
    return (moment - _START) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """Return the moment so many microseconds after 1970."""
    return _START + timedelta(microseconds=micros)
