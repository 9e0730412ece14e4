"""The parts of the display: a step, the children side by side, the budget meter, the answer."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from cli.view.picture import Child, Picture, Step

SHOWN_LINES = 24
"""Lines of a step's code and of its output that are shown; the events hold all of them."""

CHILD_WIDTH = 30
"""Fewest characters across that a child's panel can be read at."""

METERS_A_ROW = 2
TASK_CHARACTERS = 140

DIMENSIONS = ("iterations", "llm_calls", "child_calls", "tool_calls", "output_bytes", "seconds")

_STATUS = {
    "running": ("●", "cyan"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "timed_out": ("⏱", "yellow"),
    "cancelled": ("■", "yellow"),
    "not_started": ("–", "dim"),
}


def step_panel(step: Step) -> RenderableType:
    """A step: what it was for, its code, what it printed."""
    parts: list[RenderableType] = []
    if step.reasoning:
        parts.append(Text(step.reasoning.strip(), style="italic"))
    if step.code:
        code = _clip(step.code, "# ")
        parts.append(Syntax(code, "python", theme="ansi_dark", word_wrap=True, background_color="default"))
    if step.output.strip():
        parts += [Rule(style="dim"), Text(_clip(step.output), style="red" if step.error else "dim")]
    seconds = f" · {step.duration_ms / 1000:.1f} s" if step.duration_ms else ""
    of = f" of {step.of}" if step.of else ""
    return Panel(Group(*parts), title=f"step {step.number}{of}{seconds}", title_align="left", border_style="blue")


def children_columns(children: list[Child], width: int) -> RenderableType:
    """The children of a batch, side by side in their order, as many to a row as `width` characters hold."""
    ordered = sorted(children, key=lambda child: child.index)
    table = Table.grid(expand=True)
    columns = max(1, min(len(ordered), width // CHILD_WIDTH))
    for _ in range(columns):
        table.add_column(ratio=1)
    for start in range(0, len(ordered), columns):
        table.add_row(*(_child_panel(child) for child in ordered[start : start + columns]))
    return table


def budget_meter(picture: Picture) -> RenderableType:
    """What is spent of each dimension, two to a row."""
    table = Table.grid(padding=(0, 2))
    cells = [_meter(name, *picture.budget[name]) for name in DIMENSIONS if name in picture.budget]
    for start in range(0, len(cells), METERS_A_ROW):
        table.add_row(*(part for cell in cells[start : start + METERS_A_ROW] for part in cell))
    return Panel(table, title="budget", title_align="left", border_style="dim", expand=False)


def answer_panel(picture: Picture) -> RenderableType:
    """The answer, or why there is none."""
    if picture.end == "completed":
        return Panel(Markdown(picture.answer), title="answer", title_align="left", border_style="green")
    what = picture.error or "the Turn ended without an answer"
    return Panel(Text(what), title=picture.end.replace("_", " "), title_align="left", border_style="red")


def summary(picture: Picture) -> RenderableType:
    """Time, calls, tokens and how the answer was taken; below it the Turn's name, to be copied."""
    calls = sum(int(model["calls"]) for model in picture.usage)
    tokens = sum(int(model["prompt_tokens"]) + int(model["completion_tokens"]) for model in picture.usage)
    parts = [f"{picture.duration_ms / 1000:.1f} s", _count(calls, "model call"), _count(tokens, "token")]
    parts += [picture.termination] if picture.termination else []
    return Group(Text(" · ".join(parts), style="dim"), Text(picture.turn, style="dim", no_wrap=True, overflow="fold"))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _meter(name: str, used: int, limit: int) -> tuple[RenderableType, RenderableType, RenderableType]:
    style = "red" if used >= limit else "yellow" if used * 4 >= limit * 3 else "green"
    bar = ProgressBar(total=max(limit, 1), completed=min(used, limit), width=10, complete_style=style)
    label = Text(name.replace("_", " "), style="dim", no_wrap=True)
    return label, bar, Text(f"{_short(used)}/{_short(limit)}", style="dim", no_wrap=True)


def _short(number: int) -> str:
    if number < 100_000:
        return f"{number:,}"
    return f"{number / 1000:,.0f}k" if number < 1_000_000 else f"{number / 1_000_000:,.1f}M"


def _child_panel(child: Child) -> RenderableType:
    mark, style = _STATUS.get(child.status, ("?", "dim"))
    task = " ".join(child.task.split()) or "…"
    lines = [Text(task if len(task) <= TASK_CHARACTERS else f"{task[:TASK_CHARACTERS]}…")]
    if child.status == "running":
        lines.append(Text(f"step {child.iterations}: {child.doing}" if child.iterations else child.doing, style="dim"))
    elif child.doing:
        lines.append(Text(child.doing, style="red"))
    else:
        cleanup = f", sandbox gone: {child.cleanup}" if child.cleanup else ""
        lines.append(
            Text(f"{_count(child.iterations, 'step')}, {_count(len(child.evidence), 'quote')}{cleanup}", style="dim")
        )
    title = Text(f"{mark} child {child.index + 1}", style=style)
    return Panel(Group(*lines), title=title, title_align="left", border_style=style)


def _clip(text: str, mark: str = "") -> str:
    lines = text.strip("\n").splitlines()
    if len(lines) > SHOWN_LINES:
        lines[SHOWN_LINES:] = [f"{mark}… {len(lines) - SHOWN_LINES} more lines"]
    return "\n".join(lines)
