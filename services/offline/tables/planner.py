"""Decides what to compute for each clause of a question about tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from services.offline.english import FOLLOWING_ON
from services.offline.tables.clause import split_clauses
from services.offline.tables.meaning import Meaning, adds_up, read_meaning
from services.offline.tables.profile import Column, Table
from services.offline.tables.query import Group, Plan, Query, spell
from services.offline.tables.vocabulary import PARTS

_ORDER = {"day": 0, "week": 1, "month": 2, "quarter": 3, "year": 4, "decade": 5}
_AMONG = re.compile(r"\b(?:of|among|in) (?:them|those|these)\b", re.IGNORECASE)
_HOW = {
    "sum": "total",
    "mean": "average",
    "median": "median",
    "max": "largest",
    "min": "smallest",
    "count": "number of rows",
}


def plan_question(question: str, tables: Sequence[Table], earlier: str = "") -> list[Plan]:
    """A plan for each clause, against the table that explains it best.

    Args:
        question: The request.
        tables: At least one table.
        earlier: The request before this one, which a following question may lean on; may be empty.
    """
    context = _last(plan_question(earlier, tables)) if earlier else None
    plans: list[Plan] = []
    for clause in split_clauses(question):
        following = FOLLOWING_ON.match(clause) and context is not None
        best = _follow(clause, tables, context) if following and context else None
        if best is None:
            options = [_plan_clause(clause, table, context) for table in tables]
            best = max(options, key=lambda plan: bool(plan.queries))
        plans.append(best)
        context = best if best.queries else context
    return plans


def _last(plans: list[Plan]) -> Plan | None:
    return next((plan for plan in reversed(plans) if plan.queries), None)


def _plan_clause(text: str, table: Table, context: Plan | None) -> Plan:
    near = context.queries[0] if context and context.table == table.n else None
    meaning = read_meaning(text, table, near.metric if near else None)
    if near is not None and _AMONG.search(text):
        meaning.filters += near.filters
    reason = _refusal(meaning, table)
    queries = [] if reason else _decide(meaning, table)
    notes = meaning.notes + [f"these words were not used: {', '.join(meaning.unknown)}"] * bool(meaning.unknown)
    if not queries:
        reason = reason or "no column, value or measure of the table was recognised in it"
        return Plan(text, table.n, (), (reason,), tuple(meaning.open_words))
    queries = [replace(query, reading=query.reading + spell(query.filters)) for query in queries]
    return Plan(text, table.n, tuple(queries), tuple(notes), tuple(meaning.open_words))


def _refusal(meaning: Meaning, table: Table) -> str:
    if meaning.grouping and meaning.grouping.missing:
        return f"{table.file} has no dates to tell a {meaning.grouping.missing} by"
    named = [word for word in meaning.unknown if word[0].isupper() and not meaning.clause.text.startswith(word)]
    doubtful = (
        meaning.unknown
        if (meaning.counted and meaning.metric is None) or any(" " in w for w in meaning.unknown)
        else named
    )
    return f"nothing in {table.file} is called {', '.join(doubtful)}" if doubtful else ""


def _decide(meaning: Meaning, table: Table) -> list[Query]:
    group = (meaning.grouping.group if meaning.grouping else None) or _compared_values(meaning)
    filters = (*meaning.filters, *meaning.limits)
    if meaning.correlated:
        return _correlation(meaning)
    if meaning.counted:
        return _counting(meaning, table, group)
    if meaning.direction and group is not None:
        return _ranking(meaning, table, group)
    if meaning.direction and meaning.metric is not None:
        word = "largest" if meaning.direction == "max" else "smallest"
        if meaning.aggregate in ("sum", "mean", "median"):
            return [_summary(meaning, meaning.metric, meaning.aggregate)]
        reading = f"the row with the {word} {meaning.metric.name}"
        largest = meaning.direction == "max"
        return [Query("rank_rows", reading, meaning.metric.name, largest=largest, filters=filters)]
    if meaning.metric is not None and meaning.metric.type == "number":
        how = _how(meaning)
        if group is not None:
            name = _grouped_by(group)
            reading = f"the {_HOW[how]} of {meaning.metric.name} for each {name}"
            return [Query("group_table", reading, meaning.metric.name, aggregate=how, group=group, filters=filters)]
        if meaning.aggregate:
            return [_summary(meaning, meaning.metric, how)]
    if filters:
        metric = meaning.metric.name if meaning.metric else None
        reading = f"{metric} of the rows" if metric else "the rows"
        return [Query("lookup", reading, metric, filters=filters)]
    return []


def _compared_values(meaning: Meaning) -> Group | None:
    """The grouping of a clause that names several values of one column: "2013 and 2014"."""
    several = next((item for item in meaning.filters if item.op == "in"), None)
    return Group(several.column, several.part) if several else None


def _how(meaning: Meaning) -> str:
    if meaning.aggregate in ("sum", "mean", "median"):
        return meaning.aggregate
    return "sum" if meaning.metric is not None and adds_up(meaning.metric) else "mean"


def _summary(meaning: Meaning, metric: Column, how: str) -> Query:
    filters = (*meaning.filters, *meaning.limits)
    return Query("aggregate", f"the {_HOW[how]} of {metric.name}", metric.name, aggregate=how, filters=filters)


def _correlation(meaning: Meaning) -> list[Query]:
    if meaning.metric is None or meaning.second is None:
        return []
    one, other = meaning.metric.name, meaning.second.name
    reading = f"the correlation of {one} and {other}"
    return [Query("correlation", reading, one, second=other, filters=tuple(meaning.filters))]


def _counting(meaning: Meaning, table: Table, group: Group | None) -> list[Query]:
    filters = (*meaning.filters, *meaning.limits)
    part = PARTS.get(meaning.counted.lower().rstrip("s"))
    if group is not None:
        largest = meaning.direction != "min"
        word = "most" if largest else "fewest"
        if meaning.direction or (meaning.grouping and meaning.grouping.asks):
            reading = f"the {_grouped_by(group)} with the {word} rows"
            return [Query("rank_groups", reading, group=group, largest=largest, filters=filters)]
        return [Query("group_table", f"the number of rows for each {_grouped_by(group)}", group=group, filters=filters)]
    coarser = part and table.grain and _ORDER.get(part, -1) > _ORDER[table.grain]
    if coarser and table.calendar and part:
        return _counted_parts(meaning, Group(table.calendar.name, part))
    named = meaning.metric
    if named is not None and not meaning.limits and meaning.counted.lower() in " ".join(_plain(named)):
        if meaning.distinct or named.type == "text":
            return [Query("distinct", f"the different values of {named.name}", named.name, filters=filters)]
        if filters:
            return [Query("lookup", f"{named.name} of the rows", named.name, filters=filters)]
        return [_summary(meaning, named, "sum")]
    if meaning.distinct and named is not None:
        return [Query("distinct", f"the different values of {named.name}", named.name, filters=filters)]
    return [Query("count", "the number of rows", filters=filters)]


def _plain(column: Column) -> list[str]:
    """A column's stems and their plurals."""
    return [form for word in column.words for form in (word, f"{word}s", f"{word}es", f"{word.removesuffix('y')}ies")]


def _counted_parts(meaning: Meaning, group: Group) -> list[Query]:
    name = _grouped_by(group)
    if len(meaning.limits) != 1 or meaning.metric is None:
        filters = (*meaning.filters, *meaning.limits)
        limit = (">", 0.0)
        return [Query("count_groups", f"the {name}s with such a row", group=group, filters=filters, limit=limit)]
    how, bound = _how(meaning), meaning.limits[0]
    reading = f"the {name}s whose {_HOW[how]} of {meaning.metric.name} is {bound.op} {bound.value}"
    filters = tuple(meaning.filters)
    limit = (bound.op, bound.value if isinstance(bound.value, float) else 0.0)
    return [
        Query("count_groups", reading, meaning.metric.name, aggregate=how, group=group, filters=filters, limit=limit)
    ]


def _ranking(meaning: Meaning, table: Table, group: Group) -> list[Query]:
    filters = (*meaning.filters, *meaning.limits)
    metric = meaning.metric if meaning.metric and not meaning.limits else None
    how = _how(meaning) if metric else "count"
    largest = meaning.direction == "max"
    word = "largest" if largest else "smallest"
    what = f"{word} {_HOW[how]}{f' of {metric.name}' if metric else ''}"
    if metric and group.part == table.grain:
        what = f"{word} {metric.name}"
    base = Query("rank_groups", "", metric.name if metric else None, None, how, group, largest, filters)
    years = table.years
    several = years and years[0] < years[1] and not any(f.part == "year" and f.op == "==" for f in filters)
    if group.part == "month" and several and not any(f.part == "month_of_year" for f in filters):
        return [
            replace(base, reading=f"taking each month on its own, the {what}"),
            replace(
                base,
                reading=f"taking the same month of all years together, the {what}",
                group=Group(group.column, "month_of_year"),
            ),
        ]
    found = [replace(base, reading=f"the {_grouped_by(group)} with the {what}")]
    if metric and not meaning.aggregate and how == "mean":
        reading = f"the row with the {word} {metric.name}, whatever its {_grouped_by(group)}"
        found.append(Query("rank_rows", reading, metric.name, largest=largest, filters=filters))
    return found


def _grouped_by(group: Group) -> str:
    return {"": group.column, "month_of_year": "month of the year"}.get(group.part, group.part)


def _follow(clause: str, tables: Sequence[Table], context: Plan) -> Plan | None:
    """The earlier computation with the conditions and direction that a short following question names."""
    table = next(table for table in tables if table.n == context.table)
    meaning = read_meaning(clause, table, None)
    own = meaning.metric is not None and not meaning.direction
    if meaning.counted or own or meaning.grouping or not (meaning.filters or meaning.direction):
        return None
    note = f'read as a change to "{context.clause}"'
    first = context.queries[0]
    if first.kind == "rank_groups" and first.group and meaning.metric:
        meaning.filters += [item for item in first.filters if item not in meaning.filters]
        group = Group(first.group.column, first.group.part)
        queries = [replace(q, reading=q.reading + spell(q.filters)) for q in _ranking(meaning, table, group)]
        return Plan(clause, table.n, tuple(queries), (note,))
    before = spell(context.queries[0].filters)
    kept = [
        f for f in context.queries[0].filters if (f.column, f.part) not in {(g.column, g.part) for g in meaning.filters}
    ]
    queries = []
    one_year = any(item.part == "year" and item.op == "==" for item in meaning.filters)
    for query in context.queries:
        if one_year and query.group and query.group.part == "month_of_year":
            continue
        largest = meaning.direction != "min" if meaning.direction else query.largest
        filters = (*kept, *meaning.filters)
        reading = query.reading.removesuffix(before)
        if largest != query.largest:
            reading = reading.replace("largest", "\0").replace("smallest", "largest").replace("\0", "smallest")
        queries.append(replace(query, reading=reading + spell(filters), filters=filters, largest=largest))
    return Plan(clause, table.n, tuple(queries), (note,))
