"""How a Turn reads on a terminal of 80 characters, and as JSON."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from cli.view.display import JsonDisplay, RichDisplay
from cli.view.panels import SHOWN_LINES, children_columns, step_panel
from cli.view.picture import Child, Step
from tests.unit.cli.turn_story import TURN, answer, child_completed, child_started, ended, event, line, step


def console(width: int = 80) -> tuple[Console, io.StringIO]:
    written = io.StringIO()
    return Console(file=written, width=width, color_system=None), written


def shown(*events: object, width: int = 80) -> str:
    target, written = console(width)
    with RichDisplay(target) as display:
        for one in events:
            display.show(one)  # type: ignore[arg-type]
    return written.getvalue()


def test_a_whole_turn() -> None:
    text = shown(child_started(0), child_started(1), child_completed(1), child_completed(0), *step(), answer(), ended())
    order = ["child 1", "child 2", "step 1 of 12 · 1.5 s", "print(6 * 7)", "42", "budget", "It is 42.", "2.0 s"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "2 steps, 1 quote, sandbox gone:" in text
    assert "output bytes" in text
    assert "1,156/2.0M" in text
    assert "2.0 s · 1 model call · 1,234 tokens · submit\n" in text
    assert f"{TURN}\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_no_meter_is_cut_at_80_characters() -> None:
    lines = [("ITERATIONS", 12), ("LLM_CALLS", 32), ("TOOL_CALLS", 256), ("CHILD_CALLS", 4), ("SECONDS", 86_400)]
    text = shown(*(event("budget_updated", line(name, 1, limit)) for name, limit in lines), ended())
    assert "…" not in text
    for name in ("iterations", "llm calls", "tool calls", "child calls", "output bytes", "seconds", "1/86,400"):
        assert name in text


@pytest.mark.parametrize(("how", "title"), [("turn_failed", "failed"), ("turn_timed_out", "timed out")])
def test_an_end_without_an_answer_says_why(how: str, title: str) -> None:
    text = shown(ended(how, "The provider is [gone]."))
    assert f"╭─ {title} ─" in text
    assert "The provider is [gone]." in text


@pytest.mark.parametrize(("width", "rows"), [(30, 4), (80, 2), (130, 1)])
def test_as_many_children_side_by_side_as_can_be_read(width: int, rows: int) -> None:
    target, written = console(width)
    target.print(children_columns([Child(index, "look") for index in (3, 1, 0, 2)], width))
    tops = [row for row in written.getvalue().splitlines() if "child" in row]
    assert len(tops) == rows
    assert tops[0].index("child 1") < tops[0].find("child 2") or rows == 4


def test_long_code_and_output_are_cut_and_say_so() -> None:
    target, written = console()
    long = "\n".join(f"x{number}" for number in range(SHOWN_LINES + 5))
    target.print(step_panel(Step(1, code=long, output=long)))
    assert "# … 5 more lines" in written.getvalue()
    assert f"x{SHOWN_LINES}" not in written.getvalue()


def test_progress_is_plain_lines_where_there_is_no_terminal() -> None:
    target, written = console()
    with RichDisplay(target) as display:
        display.progress("uploading a[1].txt")
    assert written.getvalue() == "… uploading a[1].txt\n"


def test_json_is_events_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with JsonDisplay() as display:
        display.progress("uploading")
        display.show(answer("ä"))
    found = json.loads(capsys.readouterr().out)
    assert (found["turn"], found["type"], found["text"]) == (TURN, "answer", "ä")
