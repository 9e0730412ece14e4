"""What the offline model understood of a question about a table."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Filter:
    """A condition on rows.

    Attributes:
        column: Column name.
        op: ``==``, ``>``, ``>=``, ``<``, ``<=`` or ``contains``.
        value: A number, or a text.
        part: For a date column, the part compared: year (number), month_of_year (1..12) or weekday (0..6);
            otherwise an empty text.
    """

    column: str
    op: str
    value: float | str
    part: str = ""


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
    """

    clause: str
    table: int
    queries: tuple[Query, ...] = ()
    notes: tuple[str, ...] = field(default=())
