"""Displays of a running Turn: live on a terminal, as plain lines elsewhere, as JSON for scripts."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Protocol, Self

from fleet.session.v1.turn_event_pb2 import TurnEvent
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from cli.view.panels import answer_panel, budget_meter, children_columns, step_panel, summary
from cli.view.picture import Picture
from services.common.event_json import event_json


class Display(Protocol):
    """Shows the preparation of a Turn, its events and its end."""

    def __enter__(self) -> Self:
        """Begin to draw."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        ...

    def progress(self, text: str) -> None:
        """Say what is being done beside the Turn's events."""
        ...

    def show(self, event: TurnEvent) -> None:
        """Show one event."""
        ...


class JsonDisplay:
    """One JSON object a line: the events, nothing else."""

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def progress(self, text: str) -> None:
        """Say nothing: standard output holds events only."""

    def show(self, event: TurnEvent) -> None:
        """Write one event."""
        print(json.dumps(event_json(event), ensure_ascii=False), flush=True)


class RichDisplay:
    """Finished steps scroll by; what is going on stays below them on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._picture = Picture()
        self._doing = "starting"
        self._live = Live(
            console=console, get_renderable=self._render, refresh_per_second=8, transient=True, redirect_stdout=False
        )
        self._shown_batch: frozenset[int] = frozenset()

    def __enter__(self) -> Self:
        """Begin to draw, when this is a terminal."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        self._live.stop()

    def progress(self, text: str) -> None:
        """Say what is being done, where the live part below doesn't."""
        self._doing = text
        if self._picture.turn or not self._console.is_terminal:
            self._console.print(Text(f"… {text}", style="dim"))

    def show(self, event: TurnEvent) -> None:
        """Take one event and print what has become final."""
        picture = self._picture
        picture.take(event)
        for notice in picture.notices:
            self._console.print(Text(f"· {notice}", style="dim"))
        picture.notices.clear()
        step = picture.take_finished()
        if step is not None and (step.code or step.reasoning):
            self._print_children()
            self._console.print(step_panel(step))
        if picture.end:
            self._live.stop()
            self._console.print(budget_meter(picture), answer_panel(picture), summary(picture))

    def _print_children(self) -> None:
        children = list(self._picture.batch.values())
        if children and all(child.status != "running" for child in children):
            self._console.print(children_columns(children, self._console.width))
            self._picture.batch.clear()

    def _render(self) -> RenderableType:
        picture = self._picture
        parts: list[RenderableType] = []
        if picture.step is not None and (picture.step.code or picture.step.reasoning):
            parts.append(step_panel(picture.step))
        if picture.batch:
            parts.append(children_columns(list(picture.batch.values()), self._console.width))
        if picture.budget:
            parts.append(budget_meter(picture))
        calls = sorted(set(picture.model_calls.values()))
        doing = f"asking: {', '.join(calls)}" if calls else (picture.phase if picture.turn else self._doing)
        parts.append(Spinner("dots", Text(doing, style="cyan")))
        return Group(*parts)


def make_display(as_json: bool) -> Display:
    """The display for standard output."""
    return JsonDisplay() if as_json else RichDisplay(Console(file=sys.stdout))
