"""The REPL history as DSPy prints it: steps of reasoning, code and output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_STEP = re.compile(r"=== Step (\d+) ===\n")
_OUTPUT = re.compile(r"\n```\nOutput \(([\d,]+) chars\):\n")
_TITLE = re.compile(r"# Step: (.+)")


@dataclass(frozen=True)
class Step:
    """One step that has run.

    Attributes:
        title: The name that the program gave itself in its first line, or an empty text.
        code: The program.
        output: What it printed, or the error; clipped in the middle by DSPy when it was long.
    """

    title: str
    code: str
    output: str

    @property
    def failed(self) -> bool:
        """Whether the step ended in an error that the REPL reported."""
        return self.output.startswith(("[Error]", "[Type Error]"))

    @property
    def lost_state(self) -> bool:
        """Whether a name that an earlier step had defined was unknown."""
        return self.failed and "NameError" in self.output

    def facts(self) -> Iterator[dict[str, Any]]:
        """The JSON objects that the program printed, one a line; other lines are skipped."""
        for line in self.output.splitlines():
            if line.startswith("{"):
                try:
                    value = json.loads(line)
                except ValueError:
                    continue
                if isinstance(value, dict):
                    yield value


def read_steps(history: str) -> tuple[Step, ...]:
    """Parse the ``repl_history`` field.

    Outputs are cut by the length that DSPy prints for them, so text inside an output that looks like a step is data.
    """
    steps: list[Step] = []
    position = 0
    while match := _STEP.match(history, position):
        body = match.end()
        output = _OUTPUT.search(history, body)
        if output is None:
            break
        code = history[body : output.start()].partition("```python\n")[2]
        end = _output_end(history, output.end(), int(output.group(1).replace(",", "")))
        title = _TITLE.match(code)
        steps.append(Step(title.group(1).strip() if title else "", code, history[output.end() : end]))
        position = end + 1
    return tuple(steps)


def _output_end(history: str, start: int, length: int) -> int:
    """Where an output ends: at its stated length, else (it was clipped) before the next step."""
    end = start + length
    if end == len(history) or history.startswith("\n=== Step ", end):
        return end
    following = history.find("\n=== Step ", start)
    return len(history) if following < 0 else following
