"""What an RLM run has done so far, read from its steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from services.offline.prompt import Action
from services.offline.trajectory import Step

MOST_FAILURES = 2
"""Attempts at one step before the run goes on without it."""


@dataclass(frozen=True)
class Next:
    """The next step: why, and the program."""

    reasoning: str
    code: str


class Run:
    """The steps of a run since the sandbox last lost its state."""

    def __init__(self, action: Action) -> None:
        self.action = action
        losses = [index for index, step in enumerate(action.steps) if step.lost_state]
        self._steps = action.steps[losses[-1] + 1 :] if losses else action.steps
        self.losses = len(losses)

    @property
    def programs(self) -> list[str]:
        """Programs whose functions are still defined."""
        return [step.code for step in self._steps if not step.failed]

    def done(self, title: str) -> Step | None:
        """The last step of this title that ran without an error."""
        return next((step for step in reversed(self._steps) if step.title == title and not step.failed), None)

    def failures(self, title: str) -> int:
        """How often this step ended in an error."""
        return sum(step.title == title and step.failed for step in self._steps)

    def given_up(self, title: str, most: int = 1) -> bool:
        """Whether the step failed ``most`` times and never succeeded."""
        return self.done(title) is None and self.failures(title) >= most

    def wanted(self, title: str) -> bool:
        """Whether the step has neither succeeded nor been given up."""
        return self.done(title) is None and not self.given_up(title)

    def facts(self, title: str) -> Iterator[dict[str, Any]]:
        """What the last successful step of this title printed."""
        step = self.done(title)
        return step.facts() if step else iter(())

    @property
    def must_end(self) -> bool:
        """Whether this is the last program, or a refusal has asked for SUBMIT."""
        last = self.action.steps[-1] if self.action.steps else None
        refused = last is not None and last.failed and "SUBMIT" in last.output and not last.title.startswith("submit")
        return self.action.left <= 1 or refused

    @property
    def trouble(self) -> str:
        """One line about what went wrong in the last step, or an empty text."""
        last = self.action.steps[-1] if self.action.steps else None
        if last is None or not last.failed:
            return ""
        return f"The last step ended in an error ({last.output[:160].splitlines()[0]}), so I go on without it. "
