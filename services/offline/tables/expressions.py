"""Python expressions of a program for a query: on typed rows, or exactly on the raw cells for the second way."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from services.offline.programs.compose import literal
from services.offline.tables.profile import Table
from services.offline.tables.query import Filter, Group, Query

_PARTS = {
    "year": 'f"{{{0}:%Y}}"',
    "month": 'f"{{{0}:%Y-%m}}"',
    "month_of_year": 'f"{{{0}:%B}}"',
    "weekday": 'f"{{{0}:%A}}"',
    "week": 'f"{{{0}:%G-W%V}}"',
    "day": 'f"{{{0}:%Y-%m-%d}}"',
    "quarter": 'f"{{{0}.year}}-Q{{({0}.month + 2) // 3}}"',
    "decade": 'f"{{{0}.year // 10 * 10}}s"',
}
_COMPARED_PARTS = {"year": "{0}.year", "month_of_year": "{0}.month", "weekday": "{0}.weekday()"}


@dataclass(frozen=True)
class Rows:
    """Writes expressions over a variable ``row``.

    Attributes:
        table: The table.
        raw: Whether ``row`` holds the cells as text; numbers are then read as exact decimals.
    """

    table: Table
    raw: bool

    def cell(self, name: str) -> str:
        """The value of a column."""
        plain = f"row[{literal(name)}]"
        if not self.raw:
            return plain
        return {"number": f"exact({plain})", "date": f"day({plain})"}.get(self.table.column(name).type, plain)

    def key(self, group: Group) -> str:
        """The name of a row's group."""
        cell = self.cell(group.column)
        if not group.part:
            return cell
        return _PARTS[group.part].format(cell.replace('"', "'"))

    def condition(self, item: Filter) -> str:
        """A filter as a boolean expression."""
        cell = self.cell(item.column)
        if item.op == "contains":
            return f"{literal(item.value)} in stems({cell})"
        if item.part:
            cell = _COMPARED_PARTS[item.part].format(cell)
        if isinstance(item.value, tuple):
            return f"{cell} in ({', '.join(self._constant(value, bool(item.part)) for value in item.value)})"
        return f"{cell} {item.op} {self._constant(item.value, bool(item.part))}"

    def _constant(self, value: float | str, whole: bool) -> str:
        if isinstance(value, str):
            return literal(value)
        if whole:
            return str(int(value))
        return f'Decimal("{Decimal(repr(value)).normalize():f}")' if self.raw else f"{value:.15g}"

    def rows(self, query: Query) -> str:
        """The items (line, row) that have every needed cell and meet the conditions."""
        group = [query.group.column] if query.group else []
        needed = [query.metric, query.second, *group, *(item.column for item in query.filters)]
        names = list(dict.fromkeys(name for name in needed if name is not None))
        conditions = [self.condition(item) for item in query.filters]
        if names and self.raw:
            conditions.insert(0, f"all(row.get(name, '').strip().lower() not in BLANK for name in {literal(names)})")
        elif names:
            conditions.insert(0, f"all(row[name] is not None for name in {literal(names)})")
        kind = "raw" if self.raw else "rows"
        source = f'tables[{self.table.n}]["{kind}"]'
        if not conditions:
            return source
        return f"[\n    (line, row) for line, row in {source}\n    if " + "\n    and ".join(conditions) + "\n]"


def compared(query: Query) -> str:
    """The condition of a count_groups query on a group's score."""
    op, bound = query.limit or (">", 0.0)
    return f"lambda score: score {op} {bound:.15g}"
