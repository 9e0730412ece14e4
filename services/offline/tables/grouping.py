"""How a clause groups rows: "which month", "by state", "for each year"."""

from __future__ import annotations

from dataclasses import dataclass

from services.offline.programs.retrieval import stem
from services.offline.tables.clause import Clause, match_columns
from services.offline.tables.profile import Table
from services.offline.tables.query import Group
from services.offline.tables.vocabulary import PARTS
from services.offline.wordlist import word_set

_TRIGGERS = frozenset(["which", "what", "by", "per", "each", "every"])
_SKIPPED = word_set("calendar individual single different of the one")
_VERBS = word_set("is are was were did do does has have had will would can could")


@dataclass(frozen=True)
class Grouping:
    """What follows a grouping word.

    Attributes:
        group: The grouping, or None when rows themselves are meant.
        asks: Whether the question wants to know the group ("which month") rather than a table by it.
        missing: A part of time that the table has no dates for, or an empty text.
    """

    group: Group | None
    asks: bool
    missing: str = ""


def find_grouping(clause: Clause, table: Table) -> Grouping | None:
    """The first grouping of a clause, its words marked as used; None when there is none."""
    for index, word in enumerate(clause.lower):
        if word not in _TRIGGERS or index in clause.used:
            continue
        at = index + 1
        while at < len(clause.words) and clause.lower[at] in _SKIPPED:
            at += 1
        if at >= len(clause.words) or clause.lower[at] in _VERBS or at in clause.used:
            continue
        found = _grouping_at(clause, table, index, at)
        if found is not None:
            return found
    return None


def _grouping_at(clause: Clause, table: Table, trigger: int, at: int) -> Grouping | None:
    asks = clause.lower[trigger] in ("which", "what")
    noun = stem(clause.words[at])
    matches = match_columns(clause, table.columns, within=range(at, min(at + 4, len(clause.words))))
    whole = [m for m in matches if m.share == 1 and at in m.words]
    plain = [m for m in whole if m.column.type != "date"]
    if noun in PARTS and not plain:
        clause.used |= {trigger, at}
        return _time_grouping(clause, table, at, PARTS[noun], asks)
    if whole:
        clause.used |= {trigger, *whole[0].words}
        part = "year" if whole[0].column.type == "date" else ""
        return Grouping(Group(whole[0].column.name, part), asks)
    if asks:
        clause.used |= {trigger, at}
        return Grouping(None, asks)
    return None


def _time_grouping(clause: Clause, table: Table, at: int, part: str, asks: bool) -> Grouping:
    column = table.calendar
    if clause.lower[at : at + 4] == ["day", "of", "the", "week"]:
        clause.used |= set(range(at, at + 4))
        part = "weekday"
    if column is None:
        return Grouping(None, asks, missing=part)
    if part == "day" and table.grain == "day":
        return Grouping(None, asks)
    return Grouping(Group(column.name, part), asks)
