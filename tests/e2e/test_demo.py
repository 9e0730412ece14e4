"""The demo's questions through the `fleet` command, with the offline model, and the doctor."""

from __future__ import annotations

import calendar
import csv
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.deployment import ROOT, run_fleet, sandbox_processes

pytestmark = pytest.mark.timeout(240)

EXAMPLES = ROOT / "examples"
LICENCES = ["Apache-2.0.txt", "GPL-3.txt", "LGPL-3.txt", "MPL-2.0.txt"]


def _ask(home: Path, question: str, *files: Path) -> list[dict[str, Any]]:
    attach = [argument for file in files for argument in ("--attach", str(file))]
    done = run_fleet(home, "ask", "--profile", "local", "--json", question, *attach, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _answer(events: list[dict[str, Any]]) -> str:
    text: str = next(event["text"] for event in events if event["type"] == "answer")
    return text


def test_licences_get_a_child_each(tmp_path: Path) -> None:
    question = "What does each of these licences say about patents, and how do they differ?"
    events = _ask(tmp_path, question, *(EXAMPLES / "licenses" / name for name in LICENCES))
    children = [event for event in events if event["type"] == "child.completed"]
    assert [(event["status"], event["cleanup"]) for event in children] == [("completed", "confirmed")] * 4
    answer = _answer(events)
    assert all(name in answer for name in LICENCES)
    assert "offline model" in answer
    for licence, words in {"Apache-2.0.txt": "patent license", "MPL-2.0.txt": "patent", "GPL-3.txt": "patent"}.items():
        section = answer[answer.index(licence) :]
        assert words in section.lower()
    _citations_are_real(answer)
    assert sandbox_processes(tmp_path) == []


def _citations_are_real(answer: str) -> None:
    """Every quoted passage with a place stands at that place in that document."""
    places = re.findall(r"([\w.-]+\.txt)[:,] ?(?:lines? )?(\d+)(?:[-–](\d+))?", answer)
    assert len(places) >= 4
    for name, first, last in places:
        lines = (EXAMPLES / "licenses" / name).read_text().splitlines()
        assert 1 <= int(first) <= int(last or first) <= len(lines)


def test_weather_numbers_are_right(tmp_path: Path) -> None:
    table = EXAMPLES / "tables" / "seattle-weather.csv"
    with table.open() as file:
        rows = list(csv.DictReader(file))
    wet = sum(float(row["precipitation"]) > 20 for row in rows)
    by_month: dict[str, float] = defaultdict(float)
    for row in rows:
        year, month = re.match(r"(\d{4})[-/](\d{2})", row["date"]).groups()  # type: ignore[union-attr]
        by_month[f"{year}-{month}"] += float(row["precipitation"])
    wettest = max(by_month, key=lambda month: by_month[month])
    answer = _answer(_ask(tmp_path, "Which month was the wettest, and how many days had more than 20 mm?", table))
    assert re.search(rf"\b{wet}\b", answer)
    year, month = wettest.split("-")
    names = list(calendar.month_name)
    assert wettest in answer or f"{names[int(month)]} {year}" in answer
    assert f"{by_month[wettest]:.1f}" in answer.replace(",", "")


def test_doctor_is_green(tmp_path: Path) -> None:
    done = run_fleet(tmp_path, "doctor", "--profile", "local", "--json", timeout=200)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["name"] for result in results if not result["ok"]] == [], done.stdout
    assert done.returncode == 0
    assert {"policy", "databases", "blob store", "Root model", "sandbox", "recursion"} <= {
        item["name"] for item in results
    }
    assert all(result["ms"] >= 0 for result in results)
