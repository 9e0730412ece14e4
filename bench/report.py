"""Finished cases as a table on the terminal, as JSON and as a page."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any

import rich.box
from rich.console import Console
from rich.table import Table

from bench.samples import Case, Row

_READING = (
    "Every ratio is what a peer took, divided by what the first row took in the same round; the median of the rounds, "
    "in which the peers took turns, and in brackets the least and the greatest. Times and memory: more is worse. "
    "Rates (“a second”): more is better. The model answers at once, over HTTP, from a process of its own."
)


def environment() -> dict[str, Any]:
    """What a reader has to know of the machine."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def print_tables(cases: Sequence[Case], console: Console) -> None:
    """Print a table a case."""
    width = max((len(row.peer) for case in cases for row in case.rows), default=0)
    for case in cases:
        table = Table(box=rich.box.SIMPLE_HEAD, title=case.name, title_justify="left", title_style="bold")
        table.add_column("", min_width=width, no_wrap=True)
        for title, room in (("median", 15), ("ratio", 24), ("rounds", 6)):
            table.add_column(title, justify="right", min_width=room, no_wrap=True)
        for row in case.rows:
            median = f"{_number(row.median)} {case.unit}"
            table.add_row(row.peer, median, _ratio(case, row), str(len(row.samples)))
        console.print(table)
        for note in case.notes:
            console.print(f"  {note}", style="dim")
    console.print(_READING)


def as_json(cases: Sequence[Case], seconds: float) -> dict[str, Any]:
    """Return everything that was measured."""
    return {
        "environment": environment(),
        "seconds": round(seconds, 1),
        "cases": [
            {
                "name": case.name,
                "unit": case.unit,
                "notes": list(case.notes),
                "peers": [
                    {
                        "name": row.peer,
                        "median": row.median,
                        "ratio": case.ratio(row),
                        "ratio_range": case.spread(row),
                        "samples": list(row.samples),
                    }
                    for row in case.rows
                ],
            }
            for case in cases
        ],
    }


def as_page(cases: Sequence[Case]) -> str:
    """Return the ratios as a Markdown page."""
    machine = environment()
    head = f"Measured by `make bench` with {machine['cores']} cores and Python {machine['python']}."
    parts = ["# Benchmark results", "", head, _READING, ""]
    for case in cases:
        parts += [f"## {case.name}", "", "| | ratio | rounds |", "|---|---:|---:|"]
        parts += [f"| {row.peer} | {_ratio(case, row)} | {len(row.samples)} |" for row in case.rows]
        parts += ["", *(f"{note}\n" for note in case.notes)]
    return "\n".join(parts).rstrip() + "\n"


def _ratio(case: Case, row: Row) -> str:
    if row is case.rows[0]:
        return "1"
    ratio, (least, greatest) = case.ratio(row), case.spread(row)
    spread = f" ({_number(least)}–{_number(greatest)})" if len(row.samples) > 1 else ""
    return f"{_number(ratio)}{spread}"


def _number(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1g}"
