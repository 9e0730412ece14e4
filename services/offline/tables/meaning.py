"""Reads one clause about one table: what is measured, how, over which groups and rows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from services.offline.programs.retrieval import stem, stems
from services.offline.tables.clause import Clause, concept_columns, concept_of, match_columns
from services.offline.tables.filters import (
    Threshold,
    column_of,
    either,
    equal_numbers,
    prefer,
    thresholds,
    time_filters,
    value_filters,
)
from services.offline.tables.grouping import Grouping, find_grouping
from services.offline.tables.profile import Column, Table
from services.offline.tables.query import Filter
from services.offline.tables.vocabulary import (
    ADDITIVE,
    ADJECTIVES,
    AGGREGATES,
    LARGEST,
    PARTS,
    ROW_NOUNS,
    SMALLEST,
)

_COUNTED = re.compile(
    r"\b(?:how many|(?:the )?number of|count(?: the| of)?(?: the)?)\s+(?:(?:different|distinct|unique)\s+)?(\w+)", re.I
)
_DISTINCT = re.compile(r"\b(different|distinct|unique)\b", re.I)
_HOW_MUCH = re.compile(r"\bhow much\b", re.I)
_CORRELATED = re.compile(r"\bcorrelat\w+\b", re.I)
_TIME_ENDS = {"earliest": False, "oldest": False, "first": False, "latest": True, "newest": True, "last": True}


@dataclass
class Meaning:
    """What the words of a clause say, before it is decided what to compute.

    Attributes:
        clause: The clause, with the words that have been understood marked.
        filters: Conditions on rows other than the thresholds.
        limits: Thresholds as filters on the measured column.
        metric: The measured column, or None.
        second: Another number column that is named as completely.
        direction: max or min for a superlative, else an empty text.
        aggregate: The summary that is asked for, else an empty text.
        counted: The noun after "how many", else an empty text.
        notes: Assumptions that the answer must state.
        unknown: Words that nothing in the table explains.
        open_words: Words that no column, time or measure explains; they may be values.
    """

    clause: Clause
    grouping: Grouping | None = None
    filters: list[Filter] = field(default_factory=list)
    limits: list[Filter] = field(default_factory=list)
    metric: Column | None = None
    second: Column | None = None
    direction: str = ""
    aggregate: str = ""
    counted: str = ""
    distinct: bool = False
    correlated: bool = False
    notes: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    open_words: list[str] = field(default_factory=list)


def read_meaning(text: str, table: Table, fallback: str | None) -> Meaning:
    """Read a clause against a table's columns and values.

    Args:
        text: The clause.
        table: The table.
        fallback: Column that an earlier clause measured, for a clause that names none.
    """
    meaning = Meaning(Clause(text))
    clause = meaning.clause
    counted = _COUNTED.search(text)
    meaning.counted = counted.group(1) if counted else ""
    meaning.distinct, meaning.correlated = bool(_DISTINCT.search(text)), bool(_CORRELATED.search(text))
    meaning.filters += time_filters(clause, table)
    _read_thresholds(meaning, thresholds(clause), table, fallback)
    meaning.filters += equal_numbers(clause, table)
    meaning.grouping = find_grouping(clause, table)
    counts_rows = bool(meaning.counted) and not meaning.limits
    if counts_rows:
        meaning.filters += value_filters(clause, table.mentions, whole=True)
    _read_superlative(meaning, table)
    _read_aggregate(meaning)
    _read_metric(meaning, table)
    meaning.filters += value_filters(clause, table.mentions, whole=True)
    _read_rest(meaning, table)
    meaning.filters = either(meaning.filters)
    return meaning


def _read_thresholds(meaning: Meaning, found: list[Threshold], table: Table, fallback: str | None) -> None:
    for threshold in found:
        column, match = column_of(threshold, meaning.clause, table, fallback)
        if column is None:
            meaning.unknown.append(f"{threshold.op} {threshold.number:g} {threshold.unit}".strip())
            continue
        meaning.limits.append(Filter(column.name, threshold.op, threshold.number))
        meaning.clause.used |= match.words if match else set()
        meaning.clause.used |= {
            i for i, word in enumerate(meaning.clause.lower) if concept_of(word) and column in _named(word, table)
        }
        meaning.metric = meaning.metric or column


def _named(word: str, table: Table) -> list[Column]:
    concept = concept_of(word)
    return concept_columns(concept, table.columns) if concept else []


def _read_superlative(meaning: Meaning, table: Table) -> None:
    clause = meaning.clause
    for index, word in enumerate(clause.lower):
        if index in clause.used:
            continue
        form = word if word in ADJECTIVES else word.removesuffix("er") + "est"
        if form in ADJECTIVES and (form == word or word.endswith("er")):
            concept, meaning.direction, summary = ADJECTIVES[form]
            meaning.aggregate = summary
            columns = concept_columns(concept, table.columns)
            meaning.metric = prefer(columns, largest=meaning.direction == "max") if columns else meaning.metric
            clause.used.add(index)
            if len(columns) > 1 and meaning.metric:
                others = ", ".join(c.name for c in columns if c is not meaning.metric)
                meaning.notes.append(f"'{word}' is read as the column {meaning.metric.name} (there is also {others})")
        elif word in _TIME_ENDS and table.calendar and meaning.grouping:
            meaning.direction, meaning.metric = "max" if _TIME_ENDS[word] else "min", table.calendar
            clause.used.add(index)
        elif word in LARGEST or word in SMALLEST:
            meaning.direction = meaning.direction or ("max" if word in LARGEST else "min")
        elif word.endswith("est") and len(word) > 5:
            _read_formed(meaning, table, index, word)


def _read_formed(meaning: Meaning, table: Table, index: int, word: str) -> None:
    """A superlative such as "windiest" whose stem is a word of a column."""
    base = stem(word.removesuffix("est").removesuffix("i"))
    columns = [c for c in table.columns if c.type == "number" and base in c.words]
    if columns:
        meaning.direction, meaning.metric = "max", prefer(columns, largest=True)
        meaning.clause.used.add(index)


def _read_aggregate(meaning: Meaning) -> None:
    words = [AGGREGATES[word] for word in meaning.clause.lower if word in AGGREGATES]
    middles = [word for word in words if word in ("mean", "sum", "median")]
    if middles:
        meaning.aggregate = middles[0]
        meaning.clause.used |= {i for i, w in enumerate(meaning.clause.lower) if AGGREGATES.get(w) == middles[0]}
    elif words and not meaning.direction:
        meaning.direction = words[0]
    if _HOW_MUCH.search(meaning.clause.text) and not meaning.aggregate:
        meaning.aggregate = "how much"


def _read_metric(meaning: Meaning, table: Table) -> None:
    if meaning.metric is not None and not meaning.correlated:
        return
    clause = meaning.clause
    grouped = meaning.grouping.group.column if meaning.grouping and meaning.grouping.group else None
    wanted = tuple(c for c in table.columns if c.name != grouped and (c.type == "number" or not meaning.direction))
    matches = match_columns(clause, wanted)
    good = [m for m in matches if m.share >= 0.5] or matches
    good = [m for m in good if m.column.type == "number"] or good
    if good:
        ties = [m.column for m in good if m.order == good[0].order]
        meaning.metric = prefer(ties, largest=meaning.direction != "min")
        chosen = next(m for m in good if m.column is meaning.metric)
        clause.used |= chosen.words
        others = [c.name for c in ties if c is not meaning.metric]
        rest = [m for m in good if m.column is not meaning.metric and m.share >= 0.5 and not m.words & chosen.words]
        meaning.second = rest[0].column if rest else None
        if meaning.correlated and rest:
            clause.used |= rest[0].words
        elif others:
            meaning.notes.append(f"the column {meaning.metric.name} is used; {', '.join(others[:4])} would fit too")
        return
    for index, word in enumerate(clause.lower):
        columns = _named(word, table) if index not in clause.used else []
        if columns:
            meaning.metric = prefer(columns, largest=meaning.direction != "min")
            clause.used.add(index)
            return


def _read_rest(meaning: Meaning, table: Table) -> None:
    """What is left: parts of values, then words that nothing explains."""
    clause = meaning.clause
    known = set(stems(table.file)) | {stem(part) for part in PARTS} | {stem(word) for word in ROW_NOUNS}
    correlating = {stem("correlation"), stem("correlated"), stem("correlate"), stem("calendar")}
    known |= correlating if meaning.correlated else set()
    meaning.open_words += clause.left_over(known)
    left = {stem(word) for word in clause.left_over(known)}
    parts = tuple(m for m in table.mentions if not m.whole and stem(m.words) in left)
    meaning.filters += value_filters(clause, parts, whole=False)
    left_over = clause.left_over(known)
    if meaning.counted in left_over:
        meaning.notes.append(f"each row is taken to be one of the '{meaning.counted}'")
    meaning.unknown += [word for word in left_over if word != meaning.counted]


def adds_up(column: Column) -> bool:
    """Whether values of a column are summed over a group rather than averaged."""
    return bool({stem(word) for word in ADDITIVE} & set(column.words))
