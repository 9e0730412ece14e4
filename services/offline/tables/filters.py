"""Conditions on rows that a clause states: thresholds, times and values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.offline.english import ASKING, STOP
from services.offline.programs.retrieval import stem
from services.offline.tables.clause import Clause, ColumnMatch, concept_columns, concept_of, match_columns
from services.offline.tables.profile import Column, Mention, Table
from services.offline.tables.query import Filter
from services.offline.tables.vocabulary import COMPARATORS, MONTHS, UNITS, WEEKDAYS

_NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
_COMPARED = re.compile(
    rf"(?<!\w)(?P<op>{'|'.join(re.escape(words) for words in COMPARATORS)})\s*(?P<number>{_NUMBER})(?!\d)",
    re.IGNORECASE,
)
_OR_MORE = re.compile(
    rf"(?P<number>{_NUMBER})\s*(?P<unit>°?\s?[a-z/]+\s+)??or\s+(?P<op>more|above|over|higher|less|fewer|below|lower|under)\b",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    rf"\b(?:between|from)\s+(?P<low>{_NUMBER})\s*[a-z°/]*\s+(?:and|to)\s+(?P<high>{_NUMBER})", re.IGNORECASE
)
_UNIT = re.compile(r"\s*(°\s?[cf]?|[a-z]+(?:/[a-z]+)?)", re.IGNORECASE)
_YEARS = re.compile(r"\b(?P<op>since|after|before|until|through|from)\s+(?P<year>[12]\d{3})\b", re.IGNORECASE)
_YEAR_OPS = {"since": ">=", "from": ">=", "after": ">", "before": "<", "until": "<=", "through": "<="}


@dataclass(frozen=True)
class Threshold:
    """A comparison whose column may not be known: ``end`` is where its number ends in the text."""

    op: str
    number: float
    unit: str
    end: int


def thresholds(clause: Clause) -> list[Threshold]:
    """Comparisons with numbers; their words are marked as used."""
    found: list[Threshold] = []
    for match in _BETWEEN.finditer(clause.text):
        low, high = _value(match["low"]), _value(match["high"])
        if not (_is_year(low) and _is_year(high)):
            unit = _unit_at(clause.text, match.end())
            found += [Threshold(">=", low, unit, match.end()), Threshold("<=", high, unit, match.end())]
            clause.use_span(match.start(), match.end())
    for match in _OR_MORE.finditer(clause.text):
        op = ">=" if match["op"].lower() in ("more", "above", "over", "higher") else "<="
        unit = (match["unit"] or "").strip()
        found.append(Threshold(op, _value(match["number"]), unit.lower(), match.end()))
        clause.use_span(match.start(), match.end())
    for match in _COMPARED.finditer(clause.text):
        if clause.starts and not _fresh(clause, match.start("number")):
            continue
        op = COMPARATORS[match["op"].lower()]
        found.append(Threshold(op, _value(match["number"]), _unit_at(clause.text, match.end()), match.end()))
        clause.use_span(match.start(), match.end())
    return found


def column_of(
    threshold: Threshold, clause: Clause, table: Table, fallback: str | None
) -> tuple[Column | None, ColumnMatch | None]:
    """The number column that a threshold is about: by its unit, by words around it, else the fallback."""
    concept = next((UNITS[unit] for unit in UNITS if _same_unit(unit, threshold.unit)), None)
    options = concept_columns(concept, table.columns) if concept else []
    if not options and concept == "speed":
        options = concept_columns("wind", table.columns)
    if options:
        clause.use_span(threshold.end, threshold.end + 1 + len(threshold.unit) + 1)
        return prefer(options, largest=threshold.op in (">", ">=")), None
    numbers = tuple(column for column in table.columns if column.type == "number")
    after = [index for index, at in enumerate(clause.starts) if at >= threshold.end][:4]
    near = match_columns(clause, numbers, within=range(after[0], after[-1] + 1)) if after else []
    matches = [m for m in near if m.share >= 0.5] or match_columns(clause, numbers)
    if matches:
        ties = [m for m in matches if m.order == matches[0].order]
        nearest = min(min(m.words) for m in ties)
        best = [m.column for m in ties if min(m.words) == nearest]
        column = prefer(best, largest=threshold.op in (">", ">="))
        return column, next(m for m in matches if m.column is column)
    for word in clause.lower:
        named = concept_of(word)
        if named and concept_columns(named, table.columns):
            return prefer(concept_columns(named, table.columns), largest=threshold.op in (">", ">=")), None
    return (table.column(fallback), None) if fallback else (None, None)


def time_filters(clause: Clause, table: Table) -> list[Filter]:
    """Years, months and weekdays that the clause names; their words are marked as used."""
    column = table.calendar or next((c for c in table.columns if c.type == "number" and c.words == ("year",)), None)
    if column is None:
        return []
    part = "year" if column.type == "date" else ""
    found: list[Filter] = []
    for match in _BETWEEN.finditer(clause.text):
        low, high = _value(match["low"]), _value(match["high"])
        if _is_year(low) and _is_year(high):
            found += [Filter(column.name, ">=", low, part), Filter(column.name, "<=", high, part)]
            clause.use_span(match.start(), match.end())
    for match in _YEARS.finditer(clause.text):
        if _fresh(clause, match.start("year")):
            found.append(Filter(column.name, _YEAR_OPS[match["op"].lower()], float(match["year"]), part))
            clause.use_span(match.start(), match.end())
    for index, word in enumerate(clause.words):
        if index not in clause.used and re.fullmatch(r"[12]\d{3}", word):
            found.append(Filter(column.name, "==", float(word), part))
            clause.used.add(index)
    return found + (_calendar_names(clause, column) if column.type == "date" else [])


def _calendar_names(clause: Clause, column: Column) -> list[Filter]:
    found = []
    for index, word in enumerate(clause.words):
        lower = word.lower()
        if lower in MONTHS and ((lower != "may" and lower != "march") or word[0].isupper()):
            found.append(Filter(column.name, "==", float(MONTHS.index(lower) + 1), "month_of_year"))
            clause.used.add(index)
        elif lower.removesuffix("s") in WEEKDAYS:
            found.append(Filter(column.name, "==", float(WEEKDAYS.index(lower.removesuffix("s"))), "weekday"))
            clause.used.add(index)
    return found


def equal_numbers(clause: Clause, table: Table) -> list[Filter]:
    """Numbers right before a column's whole name: "8 cylinders"."""
    numbers = tuple(column for column in table.columns if column.type == "number")
    found = []
    for index, word in enumerate(clause.words):
        if index in clause.used or not re.fullmatch(_NUMBER, word):
            continue
        matches = [
            m
            for m in match_columns(clause, numbers, within=range(index + 1, min(index + 3, len(clause.words))))
            if m.share == 1
        ]
        if matches:
            found.append(Filter(matches[0].column.name, "==", _value(word)))
            clause.used |= {index, *matches[0].words}
    return found


def value_filters(clause: Clause, mentions: tuple[Mention, ...], *, whole: bool) -> list[Filter]:
    """Values of text columns that unused words of the clause name; longer names first."""
    found: list[Filter] = []
    for mention in sorted((m for m in mentions if m.whole == whole), key=lambda m: -len(m.words)):
        place = re.search(rf"(?<!\w){re.escape(mention.words)}(?!\w)", clause.text, re.IGNORECASE)
        if place is None:
            continue
        indices = {i for i, at in enumerate(clause.starts) if place.start() <= at < place.end()}
        telling = any(clause.words[i] not in STOP | ASKING for i in indices)
        if telling and not indices & clause.used:
            found.append(Filter(mention.column, "==" if whole else "contains", mention.value))
            clause.used |= indices
    return found


def either(filters: list[Filter]) -> list[Filter]:
    """Filters for several values of one column become one filter for any of them."""
    merged: dict[tuple[str, str], Filter] = {}
    for item in filters:
        key = (item.column, item.part) if item.op == "==" else (item.column, f"{item.op}{item.value}")
        known = merged.get(key)
        if known is None or known.value == item.value:
            merged[key] = item
        else:
            values = known.value if isinstance(known.value, tuple) else (known.value,)
            merged[key] = Filter(item.column, "in", (*values, item.value), item.part)  # type: ignore[arg-type]
    return list(merged.values())


def prefer(columns: list[Column], *, largest: bool) -> Column:
    """Of several columns the one named for the extreme that is asked for, else the first; at least one is needed."""
    wanted = "max" if largest else "min"
    return next((column for column in columns if any(w.startswith(wanted) for w in column.words)), columns[0])


def _fresh(clause: Clause, at: int) -> bool:
    return next((i not in clause.used for i, start in enumerate(clause.starts) if start >= at), True)


def _unit_at(text: str, end: int) -> str:
    match = _UNIT.match(text, end)
    return match.group(1).lower().replace(" ", "") if match else ""


def _same_unit(unit: str, word: str) -> bool:
    return unit == word or (len(word) > 3 and word.isalpha() and stem(unit) == stem(word))


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _is_year(value: float) -> bool:
    return value == int(value) and 1000 <= value < 3000
