"""Final outputs from a trajectory that ended before SUBMIT: what its steps printed, nothing more."""

from __future__ import annotations

import json

from services.offline.programs.answering import SIGNATURE
from services.offline.prompt import Extraction
from services.offline.trajectory import Step

MOST_ITEMS = 16
MOST_CHARACTERS = 4000
_EMPTY = {"array": "[]", "object": "{}", "integer": "0", "number": "0.0", "boolean": "False"}


def extract_fields(asked: Extraction) -> dict[str, str]:
    """A text for every output field, from what the steps printed."""
    found = list(dict.fromkeys(line for step in asked.steps for line in _findings(step)))[:MOST_ITEMS]
    fields = {}
    for name, kind in asked.outputs.items():
        if kind == "string":
            fields[name] = _answer(found, asked.steps)
        elif kind == "array" and name in ("evidence", "findings"):
            fields[name] = json.dumps([line[:500] for line in found])
        elif kind == "array" and name == "gaps":
            fields[name] = json.dumps(["The steps ended before an answer was submitted."])
        else:
            fields[name] = _EMPTY.get(kind, "None")
    return fields


def _answer(found: list[str], steps: tuple[Step, ...]) -> str:
    lines = ["The steps ended before an answer was submitted. What they had found:"]
    lines += [f"- {line}" for line in found]
    if not found:
        printed = next((step.output for step in reversed(steps) if step.output.strip() and not step.failed), "nothing")
        lines.append(_harmless(printed[:MOST_CHARACTERS]))
    return "\n".join([*lines, "", SIGNATURE])


def _findings(step: Step) -> list[str]:
    """Figures, children's answers and quotes that a step printed."""
    found = []
    for fact in () if step.failed else step.facts():
        if "found" in fact:
            found.append(f"{fact.get('id', '')} {fact['found']}".strip())
        elif "status" in fact:
            found.append(str(fact.get("answer", ""))[:500])
        elif "quotes" in fact and fact.get("quotes"):
            found.append(f'"{fact.get("first", "")}"')
    return [_harmless(" ".join(line.split())) for line in found if line.strip()]


def _harmless(text: str) -> str:
    """Text that can't be taken for a field marker."""
    return text.replace("[[ ##", "[ ##")
