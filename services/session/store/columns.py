"""Column types that mean the same on SQLite and PostgreSQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Dialect, Text
from sqlalchemy.types import TypeDecorator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(time: datetime) -> int:
    """Microseconds since 1970 in UTC."""
    return (time - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The time, in UTC, of so many microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=micros)


class UtcTime(TypeDecorator[datetime]):
    """A time as microseconds since 1970: exact, ordered and free of time zones in both databases."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """To the database."""
        return None if value is None else to_micros(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        """From the database."""
        return None if value is None else from_micros(int(value))


class JsonText(TypeDecorator[Any]):
    r"""Any JSON value as ASCII text; None is NULL.

    Texts are kept this way too: PostgreSQL takes no NUL character and no lone surrogate in a text, and here both are
    escaped.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else json.dumps(value, separators=(",", ":"), allow_nan=False)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Any | None:
        """From the database."""
        return None if value is None else json.loads(value)
