"""Pieces that measure rows of a table; each returns what was found, in words and as values for the check."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from services.offline.programs.records import show, spans

Rows = list[tuple[int, dict[str, Any]]]
Measure = Callable[[dict[str, Any]], Any]
Summary = Callable[[list[Any]], float]


def nothing() -> dict[str, Any]:
    """The result when no row meets the conditions."""
    return {"value": None, "keys": [], "main": "no row of the table meets the conditions", "rows": 0}


def rank_groups(
    rows: Rows, key: Measure, value: Measure, how: Summary, largest: bool, years: int = 0
) -> dict[str, Any]:
    """The group with the largest or smallest summary, those that tie with it, and the next three."""
    groups: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    for line, row in rows:
        groups[key(row)].append((line, value(row)))
    if not groups:
        return nothing()
    scores = {name: how([number for _, number in part]) for name, part in groups.items()}
    order = sorted(scores, key=lambda name: (-scores[name] if largest else scores[name], str(name)))
    best = scores[order[0]]
    winners = [name for name in order if math.isclose(scores[name], best, rel_tol=1e-9, abs_tol=1e-12)]
    lines = [line for name in winners for line, _ in groups[name]]
    after = ", ".join(f"{show(name)} with {show(scores[name])}" for name in order[len(winners) : len(winners) + 3])
    yearly = f", {show(best / years)} a year" if years else ""
    main = f"**{', '.join(map(show, winners[:8]))}** with {show(best)}{yearly}" + (f" (next: {after})" if after else "")
    cite = spans(lines)
    return {"value": best, "keys": [show(name) for name in winners], "main": main, "rows": len(lines), "cite": cite}


def rank_rows(rows: Rows, label: Measure, value: Measure, largest: bool) -> dict[str, Any]:
    """The rows with the largest or smallest value, and the next three."""
    order = sorted(rows, key=lambda item: value(item[1]), reverse=largest)
    if not order:
        return nothing()
    best = value(order[0][1])
    winners = [item for item in order if value(item[1]) == best]
    after = ", ".join(f"{label(row)} with {show(value(row))}" for _, row in order[len(winners) : len(winners) + 3])
    names = "; ".join(label(row) for _, row in winners[:5]) + (
        f" and {len(winners) - 5} more" if len(winners) > 5 else ""
    )
    main = f"**{show(best)}** in {names}" + (f" (next: {after})" if after else "")
    lines = [line for line, _ in winners]
    return {"value": best, "keys": lines, "main": main, "rows": len(lines), "cite": spans(lines)}


def count_rows(rows: Rows) -> dict[str, Any]:
    """How many rows there are, and where."""
    lines = [line for line, _ in rows]
    cite = spans(lines) if lines else ""
    return {"value": len(rows), "keys": [], "main": f"**{len(rows)}**", "rows": len(rows), "cite": cite}


def count_groups(
    rows: Rows, key: Measure, value: Measure, how: Summary, meets: Callable[[float], bool]
) -> dict[str, Any]:
    """How many groups have a summary that meets a condition, and which."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for _, row in rows:
        groups[key(row)].append(value(row))
    found = sorted(show(name) for name, values in groups.items() if meets(how(values)))
    listed = ", ".join(found[:24]) + (" and more" if len(found) > 24 else "")
    main = f"**{len(found)}** of {len(groups)}" + (f": {listed}" if found else "")
    return {"value": len(found), "keys": found, "main": main, "rows": len(rows)}


def group_table(rows: Rows, key: Measure, value: Measure, how: Summary) -> dict[str, Any]:
    """The summary of every group, in the order of their names."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for _, row in rows:
        groups[key(row)].append(value(row))
    if not groups:
        return nothing()
    scores = {name: how(values) for name, values in sorted(groups.items(), key=lambda item: str(item[0]))}
    listed = [f"{show(name)}: {show(score)}" for name, score in scores.items()]
    more = f"; and {len(listed) - 60} more groups" if len(listed) > 60 else ""
    keys = [show(name) for name in scores]
    return {"value": math.fsum(scores.values()), "keys": keys, "main": "; ".join(listed[:60]) + more, "rows": len(rows)}


def summary(rows: Rows, value: Measure, how: Summary) -> dict[str, Any]:
    """One figure over all rows."""
    if not rows:
        return nothing()
    figure = how([value(row) for _, row in rows])
    cite = spans([line for line, _ in rows])
    return {"value": figure, "keys": [], "main": f"**{show(figure)}**", "rows": len(rows), "cite": cite}


def distinct(rows: Rows, value: Measure) -> dict[str, Any]:
    """How many different values there are, and the first of them."""
    found = sorted({show(value(row)) for _, row in rows})
    listed = ", ".join(found[:24]) + (" and more" if len(found) > 24 else "")
    return {"value": len(found), "keys": found, "main": f"**{len(found)}**: {listed}", "rows": len(rows)}


def lookup(rows: Rows, names: list[str]) -> dict[str, Any]:
    """The rows themselves, at most ten, with some of their columns."""
    if not rows:
        return nothing()
    shown = [", ".join(f"{n}: {show(row[n])}" for n in names if row[n] is not None) for _, row in rows[:10]]
    main = "; ".join(f"**{cells}** (line {line})" for (line, _), cells in zip(rows, shown, strict=False))
    more = f"; and {len(rows) - 10} more rows" if len(rows) > 10 else ""
    lines = [line for line, _ in rows]
    return {"value": len(rows), "keys": lines, "main": main + more, "rows": len(rows), "cite": spans(lines)}


def correlation(rows: Rows, one: Measure, other: Measure) -> dict[str, Any]:
    """Pearson's correlation coefficient of two columns."""
    pairs = [(one(row), other(row)) for _, row in rows]
    if len({a for a, _ in pairs}) < 2 or len({b for _, b in pairs}) < 2:
        return nothing()
    figure = statistics.correlation([a for a, _ in pairs], [b for _, b in pairs])
    return {"value": figure, "keys": [], "main": f"**{show(figure)}** (Pearson)", "rows": len(rows)}


def agrees(result: dict[str, Any], value: Any, keys: list[Any]) -> bool:
    """Whether a second computation gives the same figure for the same groups or rows."""
    if result["value"] is None or isinstance(result["value"], (int, float)) is False:
        return bool(result["value"] == value and sorted(result["keys"]) == sorted(keys))
    close = value is not None and math.isclose(float(value), result["value"], rel_tol=1e-9, abs_tol=1e-9)
    return close and sorted(result["keys"]) == sorted(keys)
