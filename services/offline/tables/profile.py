"""What the load step printed about each table: columns, types, ranges, and values that the question names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from services.offline.programs.retrieval import stems


@dataclass(frozen=True)
class Column:
    """One column: ``type`` is number, date or text; ``low`` and ``high`` are as printed."""

    name: str
    type: str
    low: str
    high: str
    distinct: int

    @property
    def words(self) -> tuple[str, ...]:
        """Stems of the words of the name, where both ``snake_case`` and ``camelCase`` part words."""
        parted = "".join(
            f" {c}" if c.isupper() and p.islower() else c for p, c in zip(" " + self.name, self.name, strict=False)
        )
        return tuple(stems(parted))


@dataclass(frozen=True)
class Mention:
    """Words of the question that are a value of a text column, or part of some (``whole`` is false)."""

    words: str
    column: str
    value: str
    whole: bool
    rows: int


@dataclass(frozen=True)
class Table:
    """One table: its place among the documents, its file and what it holds."""

    n: int
    file: str
    rows: int
    columns: tuple[Column, ...]
    mentions: tuple[Mention, ...]

    def column(self, name: str) -> Column:
        """The column of this name; it must exist."""
        return next(column for column in self.columns if column.name == name)

    @property
    def calendar(self) -> Column | None:
        """The first date column."""
        return next((column for column in self.columns if column.type == "date"), None)

    @property
    def grain(self) -> str:
        """The calendar unit of one row: day, month or year; an empty text when rows are not a time series."""
        column = self.calendar
        if column is None or column.distinct * 2 < self.rows:
            return ""
        low, high = date.fromisoformat(column.low), date.fromisoformat(column.high)
        days = max((high - low).days, 1) / max(column.distinct - 1, 1)
        return "day" if days < 5 else "month" if 25 < days < 35 else "year" if 360 < days < 370 else ""

    @property
    def years(self) -> tuple[int, int] | None:
        """First and last year of the date column, or of a number column called year."""
        if self.calendar:
            return int(self.calendar.low[:4]), int(self.calendar.high[:4])
        for column in self.columns:
            if column.type == "number" and column.words == ("year",):
                return int(float(column.low)), int(float(column.high))
        return None


def read_tables(facts: Iterable[dict[str, Any]], files: dict[int, str]) -> tuple[Table, ...]:
    """Tables from the facts that the load step printed, in order.

    Args:
        facts: The JSON objects of its output.
        files: File names by document number.
    """
    heads: dict[int, int] = {}
    columns: dict[int, list[Column]] = {}
    mentions: dict[int, list[Mention]] = {}
    for fact in facts:
        n = fact.get("n")
        if not isinstance(n, int) or n not in files:
            continue
        if fact.get("table") is True:
            heads[n] = int(fact["rows"])
        elif "mention" in fact:
            part = fact.get("contains")
            value = str(part if part is not None else fact["value"])
            mentions.setdefault(n, []).append(
                Mention(fact["mention"], fact["column"], value, part is None, int(fact["rows"]))
            )
        elif "column" in fact:
            low, high = str(fact.get("low", "")), str(fact.get("high", ""))
            columns.setdefault(n, []).append(Column(fact["column"], fact["type"], low, high, int(fact["distinct"])))
    return tuple(
        Table(n, files[n], rows, tuple(columns[n]), tuple(mentions.get(n, ())))
        for n, rows in heads.items()
        if n in columns
    )
