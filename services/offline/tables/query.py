"""What the offline model understood of a question about a table."""

from __future__ import annotations

from dataclasses import dataclass

from services.offline.tables.vocabulary import MONTHS, WEEKDAYS


@dataclass(frozen=True)
class Filter:
    """A condition on rows.

    Attributes:
        column: Column name.
        op: ``==``, ``>``, ``>=``, ``<``, ``<=``, ``contains`` or ``in``.
        value: A number or a text; for ``in`` several of them.
        part: For a date column, the part compared: year (number), month_of_year (1..12) or weekday (0..6);
            otherwise an empty text.
    """

    column: str
    op: str
    value: float | str | tuple[float | str, ...]
    part: str = ""

    def __str__(self) -> str:
        """The condition in plain words."""
        name = {"month_of_year": "the month", "weekday": "the day"}.get(self.part, self.part or self.column)
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        shown = " or ".join(self._shown(value) for value in values)
        return f"{name} {'is' if self.op in ('==', 'in') else self.op} {shown}"

    def _shown(self, value: float | str) -> str:
        if isinstance(value, str):
            return value
        names = {"month_of_year": MONTHS, "weekday": WEEKDAYS}.get(self.part)
        if names is not None:
            return names[int(value) - (self.part == "month_of_year")].capitalize()
        return f"{value:.15g}"


def spell(filters: tuple[Filter, ...]) -> str:
    """Conditions as the end of a reading: ", where …", or an empty text."""
    return f", where {' and '.join(map(str, filters))}" if filters else ""


@dataclass(frozen=True)
class Group:
    """How rows are grouped: by a column's value, or by a ``part`` of a date column."""

    column: str
    part: str = ""


@dataclass(frozen=True)
class Query:
    """One computation.

    Attributes:
        kind: rank_groups, rank_rows, count, count_groups, group_table, aggregate, distinct, lookup or correlation.
        reading: In plain words, how the question is read.
        metric: The column that is measured, or None for counts.
        second: The other column of a correlation.
        aggregate: sum, mean, median, min, max or count.
        group: The grouping, or None.
        largest: Direction of a ranking.
        filters: Conditions that rows must meet.
        limit: For count_groups, the condition that a group's score must meet, as (operator, value).
    """

    kind: str
    reading: str
    metric: str | None = None
    second: str | None = None
    aggregate: str = "count"
    group: Group | None = None
    largest: bool = True
    filters: tuple[Filter, ...] = ()
    limit: tuple[str, float] | None = None


@dataclass(frozen=True)
class Plan:
    """The readings of one clause of the question, or why there are none.

    Attributes:
        clause: The clause as asked.
        table: Number of the table's document.
        queries: One computation for each reading; empty when the clause can't be understood.
        notes: Assumptions, or the reason of a refusal.
        open_words: Words that columns don't explain, so that they may be values.
    """

    clause: str
    table: int
    queries: tuple[Query, ...] = ()
    notes: tuple[str, ...] = ()
    open_words: tuple[str, ...] = ()
