"""Answers about the example tables against figures computed here by other means."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.fakes.offline_run import Driver

LAST_LINE = "offline model"


def weather(tables: dict[str, str]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tables["seattle-weather.csv"])))


def airports(tables: dict[str, str]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tables["airports.csv"])))


def cars(tables: dict[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(tables["cars.json"])
    return found


def ask(driver: Driver, tables: dict[str, str], name: str, question: str) -> str:
    finished = driver.root(question, {name: tables[name]})
    assert "DISAGREES" not in finished.answer
    assert "not checked" not in finished.answer
    assert LAST_LINE in finished.answer.splitlines()[-1]
    return finished.answer


def test_the_wettest_month_and_the_days_over_a_threshold(driver: Driver, tables: dict[str, str]) -> None:
    answer = ask(
        driver, tables, "seattle-weather.csv", "Which month was the wettest, and how many days had more than 20 mm?"
    )
    rows = weather(tables)
    by_month: dict[str, float] = defaultdict(float)
    by_name: dict[str, float] = defaultdict(float)
    for row in rows:
        year, month, _ = row["date"].split("/")
        by_month[f"{year}-{month}"] += float(row["precipitation"])
        by_name[month] += float(row["precipitation"])
    wettest = max(by_month, key=lambda key: by_month[key])
    assert f"**{wettest}** with {round(by_month[wettest], 4):g}" in answer
    assert max(by_name, key=lambda key: by_name[key]) == "11"
    assert f"**November** with {round(by_name['11'], 4):g}, {round(by_name['11'] / 4, 4):g} a year" in answer
    assert f"where precipitation > 20: **{sum(float(row['precipitation']) > 20 for row in rows)}**" in answer


def test_the_cited_lines_are_the_rows_that_count(driver: Driver, tables: dict[str, str]) -> None:
    answer = ask(driver, tables, "seattle-weather.csv", "Which month was the wettest?")
    lines = tables["seattle-weather.csv"].splitlines()
    assert "seattle-weather.csv lines 1432-1462" in answer
    assert {line[:7] for line in lines[1431:1462]} == {"2015/12"}


@pytest.mark.parametrize(
    ("question", "condition"),
    [
        ("How many days had snow in 2012?", lambda r: r["weather"] == "snow" and r["date"][:4] == "2012"),
        ("How many days were rainy?", lambda r: r["weather"] == "rain"),
        ("How many days had wind of at least 8?", lambda r: float(r["wind"]) >= 8),
        ("How many days were below -2 degrees?", lambda r: float(r["temp_min"]) < -2),
        (
            "How many days between 5 and 10 mm in 2014?",
            lambda r: 5 <= float(r["precipitation"]) <= 10 and "2014" in r["date"],
        ),
        ("Count the days with 30 °C or more since 2014", lambda r: float(r["temp_max"]) >= 30 and r["date"] >= "2014"),
        ("number of days in July 2013", lambda r: r["date"].startswith("2013/07")),
    ],
)
def test_counts_of_days(driver: Driver, tables: dict[str, str], question: str, condition: Any) -> None:
    answer = ask(driver, tables, "seattle-weather.csv", question)
    assert f": **{sum(map(condition, weather(tables)))}** (" in answer


def test_extremes_by_year_and_by_day(driver: Driver, tables: dict[str, str]) -> None:
    rows = weather(tables)
    years: dict[str, float] = defaultdict(float)
    for row in rows:
        years[row["date"][:4]] += float(row["precipitation"])
    answer = ask(driver, tables, "seattle-weather.csv", "Which year was the driest? When was the hottest day?")
    driest = min(years, key=lambda key: years[key])
    assert f"**{driest}** with {round(years[driest], 4):g}" in answer
    hottest = max(rows, key=lambda row: float(row["temp_max"]))
    assert f"**{hottest['temp_max']}** in {hottest['date'].replace('/', '-')}" in answer


def test_a_mean_over_a_month(driver: Driver, tables: dict[str, str]) -> None:
    answer = ask(driver, tables, "seattle-weather.csv", "What was the average maximum temperature in July?")
    july = [float(row["temp_max"]) for row in weather(tables) if row["date"][5:7] == "07"]
    assert f"**{round(statistics.mean(july), 4):g}**"[:8] in answer
    assert "the average of temp_max, where the month is July" in answer


def test_months_over_a_total(driver: Driver, tables: dict[str, str]) -> None:
    months: dict[str, float] = defaultdict(float)
    for row in weather(tables):
        months[row["date"][:7]] += float(row["precipitation"])
    answer = ask(driver, tables, "seattle-weather.csv", "How many months had more than 150 mm of rain?")
    assert f"**{sum(total > 150 for total in months.values())}** of {len(months)}" in answer


def test_airports(driver: Driver, tables: dict[str, str]) -> None:
    states = Counter(row["state"] for row in airports(tables))
    answer = ask(driver, tables, "airports.csv", "Which state has the most airports? How many airports are in Texas?")
    (state, count), *_ = states.most_common(1)
    assert f"**{state}** with {count}" in answer
    assert f"where state is TX: **{states['TX']}**" in answer
    answer = ask(
        driver,
        tables,
        "airports.csv",
        "How many airports are in Texas and Ohio, and which is the northernmost airport?",
    )
    assert f"OH: {states['OH']}; TX: {states['TX']}" in answer
    north = max(airports(tables), key=lambda row: float(row["latitude"]))
    assert north["name"] in answer


def test_small_words_and_codes_are_not_values(driver: Driver, tables: dict[str, str]) -> None:
    answer = ask(driver, tables, "airports.csv", "How many airports are there in OR?")
    assert "where state is OR:" in answer
    answer = ask(driver, tables, "airports.csv", "How many airports in Texas are there or not?")
    assert ", where state is TX: **" in answer


def test_cars_in_json(driver: Driver, tables: dict[str, str]) -> None:
    rows = cars(tables)
    power: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["Horsepower"] is not None:
            power[row["Origin"]].append(row["Horsepower"])
    means = {origin: statistics.fmean(values) for origin, values in power.items()}
    answer = ask(driver, tables, "cars.json", "Which origin has the highest average horsepower?")
    best = max(means, key=lambda key: means[key])
    assert f"**{best}** with {round(means[best], 4):g}" in answer
    strong = sum((row["Horsepower"] or 0) > 150 and row["Cylinders"] == 8 for row in rows)
    answer = ask(driver, tables, "cars.json", "How many cars have more than 150 horsepower and 8 cylinders?")
    assert f"**{strong}**" in answer
    answer = ask(driver, tables, "cars.json", "How many toyotas are there?")
    assert f"**{sum('toyota' in row['Name'].split() for row in rows)}**" in answer


def test_records_are_cited_by_the_line_they_start_on(driver: Driver, tables: dict[str, str]) -> None:
    answer = ask(driver, tables, "cars.json", "What is the horsepower of the ford torino?")
    number = next(n for n, line in enumerate(tables["cars.json"].splitlines(), 1) if '"ford torino"' in line)
    assert "Horsepower: 140" in answer
    assert f"cars.json line {number - 1};" in answer


def test_correlation(driver: Driver, tables: dict[str, str]) -> None:
    pairs = [(r["Horsepower"], r["Weight_in_lbs"]) for r in cars(tables) if r["Horsepower"] is not None]
    figure = statistics.correlation(*zip(*pairs, strict=True))
    answer = ask(driver, tables, "cars.json", "Is there a correlation between horsepower and weight?")
    assert f"**{figure:.4f}**" in answer


def test_monthly_figures(driver: Driver, tables: dict[str, str]) -> None:
    rows = list(csv.DictReader(io.StringIO(tables["us-employment.csv"])))
    answer = ask(
        driver,
        tables,
        "us-employment.csv",
        "In which month did manufacturing peak? What was nonfarm employment in January 2010?",
    )
    peak = max(rows, key=lambda row: float(row["manufacturing"]))
    assert f"**{peak['month'][:7]}** with {peak['manufacturing']}" in answer
    assert "nonfarm: 129799" in answer


def test_following_questions_lean_on_the_one_before(driver: Driver, tables: dict[str, str]) -> None:
    name = "seattle-weather.csv"
    before = [{"request": "Which month was the wettest?", "answer": "2015-12"}]
    answer = driver.root("And in 2013?", {name: tables[name]}, history=before).answer
    assert "**2013-09** with 156.8" in answer
    answer = driver.root("And the driest?", {name: tables[name]}, history=before).answer
    assert "**2012-08, 2013-07** with 0" in answer


def test_what_an_earlier_turn_has_read_is_still_there(driver: Driver, tables: dict[str, str]) -> None:
    name = "seattle-weather.csv"
    first = driver.root("Which month was the wettest?", {name: tables[name]})
    said = [{"request": "Which month was the wettest?", "answer": first.answer}]
    assert "**2013-09** with 156.8" in driver.root("And in 2013?", history=said, kept=first.names).answer
    assert "earlier turns" in driver.root("And in 2013?", history=said).answer


@pytest.mark.parametrize(
    ("name", "question", "word"),
    [
        ("seattle-weather.csv", "How many days were windy in Portland?", "Portland"),
        ("seattle-weather.csv", "What is the meaning of life?", "recognised"),
        ("airports.csv", "Which month was the busiest?", "no dates"),
        ("cars.json", "How many cars cost more than 5000 dollars?", "dollars"),
    ],
)
def test_what_it_cannot_tell_it_says(
    driver: Driver, tables: dict[str, str], name: str, question: str, word: str
) -> None:
    answer = driver.root(question, {name: tables[name]}).answer
    assert "I can't tell how to compute" in answer
    assert word in answer
    assert f"{name} has" in answer
