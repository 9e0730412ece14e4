"""The programs of a table question: load, compute, check a second way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from services.offline.programs import measures, records
from services.offline.programs.compose import literal, program
from services.offline.programs.mentions import mentions
from services.offline.programs.retrieval import stem, stems
from services.offline.tables.expressions import Rows, compared
from services.offline.tables.profile import Column, Table
from services.offline.tables.query import Plan, Query

LOAD = "load the tables and see what their columns hold"
VALUES = "look for the values that the question names"
COMPUTE = "compute what is asked"
CHECK = "compute it a second way from the raw cells and compare"

_LOAD = """
BLANK = {blank}
tables = {{}}
for n, read in {readers}:
    try:
        raw = read(documents[n]["text"])
    except ValueError:
        raw = []
    if len(raw) < 2:
        print(json.dumps({{"n": n, "table": False}}))
        continue
    types = column_types(raw)
    rows = typed(raw, types)
    tables[n] = {{"raw": raw, "rows": rows, "types": types}}
    print(json.dumps({{"n": n, "table": True, "rows": len(rows), "columns": len(types)}}))
    for name in [name for name in types if len(name) <= 80][:40]:
        filled = [row[name] for _, row in rows if row[name] is not None]
        fact = {{"n": n, "column": name, "type": types[name], "distinct": len(set(filled))}}
        if types[name] != "text":
            fact |= {{"low": show(min(filled)), "high": show(max(filled))}}
        print(json.dumps(fact))
"""

_VALUES = """
asked = re.findall(r"[^\\W_]+", {question})
phrases = {{" ".join(asked[i:j]) for i in range(len(asked)) for j in range(i + 1, min(i + 7, len(asked) + 1))}}
codes = {codes}  # what a table may hold for words of the question
for n, table in tables.items():
    for fact in mentions(table["rows"], table["types"], phrases, codes)[:12]:
        print(json.dumps({{"n": n, **fact}}))
"""


def load(readers: dict[int, str]) -> str:
    """Read the tables and print what their columns hold; ``readers`` names a piece by document number."""
    pairs = "[" + ", ".join(f"({n}, {name})" for n, name in readers.items()) + "]"
    kinds = [getattr(records, name) for name in dict.fromkeys(readers.values())]
    pieces = (records.number, records.day, *kinds, records.column_types, records.typed, records.show)
    return program(LOAD, _LOAD.format(blank=repr(records.BLANK), readers=pairs), pieces)


def find_values(question: str, codes: dict[str, str]) -> str:
    """Print which values of text columns the question names.

    Args:
        question: A Python expression for the question's text.
        codes: Words of the question with the code that a table may hold for them.
    """
    body = _VALUES.format(question=question, codes=literal(codes))
    return program(VALUES, body, (stem, stems, mentions))


def compute(plans: Sequence[Plan], tables: dict[int, Table]) -> str:
    """One computation for every reading of every clause; keeps them in ``results``."""
    parts = ["results = {}"]
    pieces: dict[Callable[..., Any], None] = dict.fromkeys((records.show, records.spans, measures.nothing))
    for name, plan, query in numbered(plans):
        parts.append(_computation(name, query, tables[plan.table]))
        pieces[getattr(measures, _FUNCTIONS.get(query.kind, query.kind))] = None
    parts.append(
        'for name, result in results.items():\n    print(json.dumps({"id": name, "found": result["main"][:240]}))'
    )
    return program(COMPUTE, "\n".join(parts), tuple(pieces))


def check(plans: Sequence[Plan], tables: dict[int, Table]) -> str:
    """The same figures by another way: exact decimals from the raw cells, grouped by sorting."""
    parts = []
    for name, plan, query in numbered(plans):
        rows = Rows(tables[plan.table], raw=True)
        parts.append(f"# {name}\nagain = {rows.rows(query)}\n{_second_way(query, rows)}")
        parts.append(f'results["{name}"]["agrees"] = agrees(results["{name}"], value, keys)')
    parts.append('print(json.dumps({name: result["agrees"] for name, result in results.items()}))')
    return program(CHECK, "\n".join(parts), (records.exact, measures.agrees))


def numbered(plans: Sequence[Plan]) -> Iterator[tuple[str, Plan, Query]]:
    """Each query with the name of its result: the clause's number, and a letter where it has several readings."""
    for number, plan in enumerate(plans, 1):
        for letter, query in zip("abcdefgh", plan.queries, strict=False):
            yield f"{number}{letter if len(plan.queries) > 1 else ''}", plan, query


_FUNCTIONS = {"count": "count_rows", "aggregate": "summary"}
_SUMMARIES = {
    "sum": "math.fsum",
    "mean": "statistics.fmean",
    "median": "statistics.median",
    "max": "max",
    "min": "min",
    "count": "len",
}
_EXACT = {
    "sum": "sum(values)",
    "mean": "sum(values) / len(values)",
    "median": "(sorted(values)[(len(values) - 1) // 2] + sorted(values)[len(values) // 2]) / 2",
    "count": "len(values)",
}


def _computation(name: str, query: Query, table: Table) -> str:
    rows = Rows(table, raw=False)
    arguments: dict[str, str] = {}
    value = f"lambda row: {rows.cell(query.metric)}" if query.metric else "lambda row: 1"
    how = _SUMMARIES[query.aggregate]
    key = f"lambda row: {rows.key(query.group)}" if query.group else ""
    if query.kind == "rank_groups":
        arguments = {"key": key, "value": value, "how": how, "largest": str(query.largest)}
        if query.group and query.group.part == "month_of_year" and query.aggregate == "sum":
            arguments["years"] = f"len({{{rows.cell(query.group.column)}.year for _, row in rows}})"
    elif query.kind == "rank_rows":
        arguments = {"label": _label(query, table), "value": value, "largest": str(query.largest)}
    elif query.kind == "count_groups":
        arguments = {"key": key, "value": value, "how": how, "meets": compared(query)}
    elif query.kind == "group_table":
        arguments = {"key": key, "value": value, "how": how}
    elif query.kind == "aggregate":
        arguments = {"value": value, "how": how}
    elif query.kind == "distinct":
        arguments = {"value": value}
    elif query.kind == "lookup":
        arguments = {"names": literal(_lookup_columns(query, table))}
    elif query.kind == "correlation" and query.second:
        arguments = {"one": value, "other": f"lambda row: {rows.cell(query.second)}"}
    function = _FUNCTIONS.get(query.kind, query.kind)
    call = ", ".join(["rows", *(f"{key}={text}" for key, text in arguments.items())])
    return f'# {name}. {query.reading}\nrows = {rows.rows(query)}\nresults["{name}"] = {function}({call})'


def _label(query: Query, table: Table) -> str:
    """What to call a row: its date and its first text, other than the measured column."""
    columns = [c for c in (table.calendar if table.grain else None, _first_text(table)) if c and c.name != query.metric]
    columns = [c for c in columns if c.type == "date" or not table.grain] or list(table.columns[:1])
    return "lambda row: " + " + ' ' + ".join(f"show(row[{literal(c.name)}])" for c in columns)


def _first_text(table: Table) -> Column | None:
    """The text column that tells rows apart best: called name or title, else the one with the most values."""
    texts = [column for column in table.columns if column.type == "text"]
    named = [column for column in texts if {stem("name"), stem("title")} & set(column.words)]
    return next(iter(named or sorted(texts, key=lambda column: -column.distinct)), None)


def _lookup_columns(query: Query, table: Table) -> list[str]:
    if query.metric:
        label = _first_text(table)
        when = table.calendar if table.grain else None
        names = [c.name for c in (when, label) if c is not None and c.name != query.metric]
        return [*names, query.metric]
    if table.grain and table.calendar:
        return list(dict.fromkeys([table.calendar.name, *(item.column for item in query.filters)]))
    return [column.name for column in table.columns[:8]]


def _second_way(query: Query, rows: Rows) -> str:
    """Statements that set ``value`` and ``keys`` from ``again``."""
    cell = rows.cell(query.metric) if query.metric else "1"
    if query.kind in ("rank_groups", "count_groups", "group_table") and query.group:
        return _grouped_second_way(query, rows, cell)
    return _FLAT_SECOND_WAYS[query.kind](query, cell, rows)


def _grouped_second_way(query: Query, rows: Rows, cell: str) -> str:
    lines = [
        f"pairs = sorted((show({rows.key(query.group)}), {cell}) for _, row in again)" if query.group else "",
        "scores = {}",
        "for key, part in groupby(pairs, key=lambda pair: pair[0]):",
        "    values = [value for _, value in part]",
        f"    scores[key] = {_EXACT[query.aggregate]}",
    ]
    if query.kind == "rank_groups":
        extreme = "max" if query.largest else "min"
        lines.append(f"value = {extreme}(scores.values(), default=None)")
        lines.append("keys = [key for key in scores if math.isclose(scores[key], value, rel_tol=1e-9, abs_tol=1e-12)]")
    elif query.kind == "count_groups":
        lines.append(f"meets = {compared(query)}")
        lines.append("keys = [key for key in scores if meets(float(scores[key]))]\nvalue = len(keys)")
    else:
        lines.append("value, keys = sum(scores.values()) if scores else None, list(scores)")
    return "\n".join(lines)


def _ranked_rows(query: Query, cell: str, _: Rows) -> str:
    extreme = "max" if query.largest else "min"
    return (
        f"value = {extreme}(({cell} for _, row in again), default=None)\n"
        f"keys = [line for line, row in again if {cell} == value]"
    )


def _summed(query: Query, cell: str, _: Rows) -> str:
    return f"values = [{cell} for _, row in again]\nvalue, keys = ({_EXACT[query.aggregate]}) if values else None, []"


def _listed(_: Query, __: str, ___: Rows) -> str:
    return "keys = [line for line, _ in again]\nvalue = len(keys) or None"


def _counted(_: Query, __: str, ___: Rows) -> str:
    return "value, keys = sum(1 for _ in again), []"


def _different(_: Query, cell: str, __: Rows) -> str:
    return f"keys = list(dict.fromkeys(show({cell}) for _, row in again))\nvalue = len(keys)"


def _correlated(query: Query, cell: str, rows: Rows) -> str:
    other = rows.cell(query.second) if query.second else cell
    return (
        f"xs, ys = [{cell} for _, row in again], [{other} for _, row in again]\n"
        "mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)\n"
        "products = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys))\n"
        "spread = (sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)).sqrt()\n"
        "value, keys = products / spread if spread else None, []"
    )


_FLAT_SECOND_WAYS: dict[str, Callable[[Query, str, Rows], str]] = {
    "rank_rows": _ranked_rows,
    "aggregate": _summed,
    "lookup": _listed,
    "count": _counted,
    "distinct": _different,
    "correlation": _correlated,
}
