"""Pieces that read tables: rows with their lines, and what each column holds."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

BLANK = ("", "na", "n/a", "nan", "null", "none", "-")


def number(text: str) -> float | None:
    """The number that a cell holds, or None; codes such as 007 are not numbers."""
    text = text.strip()
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?", text):
        text = text.replace(",", "")
    plain = re.fullmatch(r"[-+]?(0|[1-9]\d{0,17}|(0|[1-9]\d*)?\.\d+|[1-9]\d*\.)([eE][-+]?\d{1,2})?", text)
    return float(text) if plain else None


def exact(text: str) -> Decimal:
    """The same number without rounding."""
    return Decimal(text.strip().replace(",", ""))


def day(text: str) -> date | None:
    """The date that a cell holds, or None; 2012-11 means the first of the month."""
    found = re.fullmatch(r"(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?(?:[T ][\d:.]+(?:Z|[-+]\d\d:?\d\d)?)?", text.strip())
    if found:
        try:
            return date(int(found[1]), int(found[2]), int(found[3] or 1))
        except ValueError:
            return None
    for shape in ("%d.%m.%Y", "%b %d %Y", "%d %b %Y", "%B %d, %Y", "%d %B %Y"):
        try:
            return datetime.strptime(text.strip(), shape).date()
        except ValueError:
            continue
    return None


def read_csv(text: str) -> list[tuple[int, dict[str, str]]]:
    """Rows of delimited text as (line, cells by column); the first row names the columns."""
    opening = text[:4000].splitlines()[0] if text.strip() else ""
    delimiter = max("\t,;|", key=opening.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    names: list[str] = []
    rows, ended = [], 0
    for cells in reader:
        line, ended = ended + 1, reader.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if not names:
            names = [cell.strip() or f"column {k}" for k, cell in enumerate(cells, 1)]
            if any(number(cell) is not None or day(cell) for cell in cells):  # no header: the first row is data
                names = [f"column {k}" for k in range(1, len(cells) + 1)]
            else:
                continue
        rows.append((line, {name: cell.strip() for name, cell in zip(names, cells, strict=False)}))
    return rows


def read_json(text: str) -> list[tuple[int, dict[str, str]]]:
    """Objects of a JSON array, of an object's longest array, or one a line, as (line, cells by key)."""
    decoder, rows, line, at, seen = json.JSONDecoder(), [], 1, 0, 0
    starts = re.match(r'\s*(\{\s*"(?:[^"\\]|\\.)*"\s*:\s*)?\[', text)
    at = starts.end() if starts else 0
    while found := re.compile(r"[\s,]*(?=\{)").match(text, at):
        line += text.count("\n", seen, found.end())
        seen = found.end()
        record, at = decoder.raw_decode(text, seen)
        shown = {k: "" if v is None else v if isinstance(v, str) else json.dumps(v) for k, v in record.items()}
        rows.append((line, shown))
    return rows


def column_types(rows: list[tuple[int, dict[str, str]]]) -> dict[str, str]:
    """The type of each column: number, date or text, as all its filled cells agree."""
    types = {}
    for name in dict.fromkeys(name for _, row in rows for name in row):
        cells = [row[name] for _, row in rows if row.get(name, "").strip().lower() not in BLANK]
        kinds = (("number", number), ("date", day))
        types[name] = next((kind for kind, read in kinds if cells and all(read(c) is not None for c in cells)), "text")
    return types


def typed(rows: list[tuple[int, dict[str, str]]], types: dict[str, str]) -> list[tuple[int, dict[str, Any]]]:
    """The rows with numbers and dates in place of their texts, and None for blank cells."""
    read: dict[str, Any] = {"number": number, "date": day, "text": str}
    result = []
    for line, row in rows:
        cells = {name: row.get(name, "") for name in types}
        values = {n: None if c.strip().lower() in BLANK else read[types[n]](c) for n, c in cells.items()}
        result.append((line, values))
    return result


def show(value: Any) -> str:
    """A value as an answer shows it: at most four decimals, no trailing zeros."""
    if isinstance(value, (float, int, Decimal)):
        return f"{round(float(value), 4) + 0:.12g}"
    return value.isoformat() if isinstance(value, date) else str(value)


def spans(lines: list[int], most: int = 6) -> str:
    """Line numbers in words, such as 'lines 3-7, 12'."""
    ranges: list[list[int]] = []
    for line in sorted(lines):
        if ranges and line <= ranges[-1][1] + 1:
            ranges[-1][1] = line
        else:
            ranges.append([line, line])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in ranges]
    more = f" and {len(texts) - most} more places" if len(texts) > most else ""
    return ("line " if len(set(lines)) == 1 else "lines ") + ", ".join(texts[:most]) + more
