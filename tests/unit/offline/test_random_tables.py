"""Random tables with figures computed here in the plainest way."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.offline.programs.records import column_types, day, number, read_csv, read_json
from tests.fakes.offline_run import Driver

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
AMOUNTS = st.decimals(min_value=0, max_value=999, places=1).map(float)


@st.composite
def sales(draw: Any) -> list[dict[str, Any]]:
    """Days in order with a shop, an amount that may be missing, and a count of visitors."""
    start = draw(st.dates(date(2001, 1, 1), date(2015, 1, 1)))
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from(["Aldgate", "Bow", "Camden"]), AMOUNTS | st.none(), st.integers(0, 50)),
            min_size=3,
            max_size=60,
        )
    )
    step = draw(st.sampled_from([1, 1, 9]))
    return [
        {"date": (start + timedelta(days=step * k)).isoformat(), "shop": shop, "revenue": amount, "visitors": count}
        for k, (shop, amount, count) in enumerate(rows)
    ]


def as_csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)
    return out.getvalue()


def shown(value: float) -> str:
    return f"{round(value, 4) + 0:.12g}"


@FEW
@given(rows=sales(), bound=st.integers(0, 999), as_json=st.booleans())
def test_totals_counts_and_extremes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], bound: int, as_json: bool
) -> None:
    if not any(row["revenue"] is not None for row in rows):
        return
    name, text = ("sales.json", json.dumps(rows, indent=1)) if as_json else ("sales.csv", as_csv(rows))
    question = (
        f"Which shop has the highest total revenue? How many days had a revenue of more than {bound}? "
        "What is the average visitors by shop? Which day had the most visitors?"
    )
    answer = Driver(tmp_path_factory.getbasetemp()).root(question, {name: text}).answer
    assert "DISAGREES" not in answer
    assert "not checked" not in answer
    totals: dict[str, float] = defaultdict(float)
    visitors: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        visitors[row["shop"]].append(row["visitors"])
        if row["revenue"] is not None:
            totals[row["shop"]] += row["revenue"]
    best = max(round(total, 6) for total in totals.values())
    winners = sorted(shop for shop, total in totals.items() if round(total, 6) == best)
    assert f"**{', '.join(winners)}** with {shown(best)}" in answer
    assert f"revenue > {bound}: **{sum((row['revenue'] or 0) > bound for row in rows)}**" in answer
    means = "; ".join(f"{shop}: {shown(sum(counts) / len(counts))}" for shop, counts in sorted(visitors.items()))
    assert f"the average of visitors for each shop: {means}" in answer
    most = max(row["visitors"] for row in rows)
    assert f"largest visitors: **{most}** in " in answer or f"**{most}**" in answer


@FEW
@given(st.lists(st.tuples(st.text('ab,"\n é', max_size=6), st.integers(-9, 9)), min_size=2, max_size=12))
def test_rows_of_csv_know_the_line_they_start_on(pairs: list[tuple[str, int]]) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["label", "n"])
    lines, at = [], 2
    for label, n in pairs:
        writer.writerow([label, n])
        lines.append(at)
        at += 1 + label.count("\n")
    found = read_csv(out.getvalue())
    assert [line for line, _ in found] == lines
    assert [row["n"] for _, row in found] == [str(n) for _, n in pairs]


@FEW
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abc"), st.integers() | st.text(max_size=5) | st.none(), min_size=1), min_size=1
    )
)
def test_records_of_json_keep_order_and_lines(records: list[dict[str, Any]]) -> None:
    text = json.dumps(records, indent=2)
    found = read_json(text)
    assert len(found) == len(records)
    assert all(text.splitlines()[line - 1].strip() == "{" for line, _ in found)
    assert read_json("\n".join(map(json.dumps, records))) == [(k, row) for k, (_, row) in enumerate(found, 1)]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**15), 10**15))
def test_numbers_are_read_as_python_writes_them(value: float) -> None:
    if "e" not in repr(value) or 1e-90 < abs(float(value)) < 1e90:
        read = number(repr(value))
        assert read == float(value) or len(repr(value)) > 22


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234,567.5", 1234567.5),
        ("007", None),
        ("1_000", None),
        ("nan", None),
        ("inf", None),
        ("-.5", -0.5),
        ("٣", None),
        ("", None),
    ],
)
def test_what_is_no_number(text: str, value: float | None) -> None:
    assert number(text) == value


@given(st.dates(date(1000, 1, 1)))
def test_dates_in_several_spellings(when: date) -> None:
    for text in (
        when.isoformat(),
        when.strftime("%Y/%m/%d"),
        f"{when.isoformat()}T12:30:00Z",
        when.strftime("%d.%m.%Y"),
    ):
        assert day(text) == when
    assert day("2012-13-01") is None
    assert day("may be") is None


def test_types_come_from_all_filled_cells() -> None:
    rows = [
        (1, {"a": "1", "b": "x", "c": "2020-01-01", "d": ""}),
        (2, {"a": "", "b": "1", "c": "2020-02-30", "d": "n/a"}),
    ]
    assert column_types(rows) == {"a": "number", "b": "text", "c": "text", "d": "text"}


def test_a_table_without_a_header(driver: Driver) -> None:
    answer = driver.root(
        "What is the total of column 2?", {"plain.csv": "2020-01-01,5\n2020-01-02,7\n2020-01-03,1\n"}
    ).answer
    assert "13" in answer


def test_huge_headers_and_ragged_rows_do_no_harm(driver: Driver, tmp_path: Path) -> None:
    wide = ",".join(f"measure_{k}" for k in range(300)) + "\n" + ",".join("1" for _ in range(299)) + "\n1,2\n"
    finished = driver.root("What is the total measure_3?", {"wide.csv": wide})
    assert max(len(step.output) for step in finished.steps) < 6000
    assert "offline model" in finished.answer


ASKED = st.lists(
    st.sampled_from(
        [
            "which",
            "what",
            "how",
            "many",
            "much",
            "month",
            "year",
            "day",
            "days",
            "wettest",
            "hottest",
            "most",
            "least",
            "average",
            "total",
            "of",
            "by",
            "per",
            "in",
            "2013",
            "July",
            "more",
            "than",
            "20",
            "mm",
            "between",
            "5",
            "and",
            "10",
            "or",
            "below",
            "the",
            "weather",
            "temp_max",
            "rain",
            "snow",
            "wind",
            "is",
            "was",
            "correlation",
            "distinct",
            "?",
            ",",
            "`x`",
            "[[",
            "##",
            "code",
            "##",
            "]]",
            "\"'{}",
            "é",
        ]
    ),
    max_size=14,
).map(" ".join)


@FEW
@given(request=ASKED | st.text(max_size=60))
def test_any_request_ends_in_an_answer(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, str], request: str
) -> None:
    text = "\n".join(tables["seattle-weather.csv"].splitlines()[:400])
    files = {"w.csv": text, "note.txt": "It rained in July. The wind was strong."}
    finished = Driver(tmp_path_factory.getbasetemp()).root(request, files)
    assert "offline model" in finished.answer.splitlines()[-1]
    assert "DISAGREES" not in finished.answer
    assert not [step for step in finished.steps if step.failed]
