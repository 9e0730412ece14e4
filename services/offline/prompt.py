"""Recognises what is asked from the messages: an RLM action, an RLM extraction or a plain prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from services.offline.trajectory import Step, read_steps
from services.offline.wire import Message

DEFAULT_CHILDREN = 4
DEFAULT_LLM_CALLS = 8

_MARKER = r"^\[\[ ## {} ## \]\][ \t]*$"
_VARIABLE = re.compile(r"^ {0,4}Variable: `(\w+)` \(access it in your code\)$", re.MULTILINE)
_LENGTH = re.compile(r"^ {0,4}Total length: ([\d,]+) characters$", re.MULTILINE)
_FIELD = re.compile(r"`\[\[ ## (\w+) ## \]\]`(?: \(must be formatted as a valid Python ([^)]*)\))?")
_SUBMIT = re.compile(r"`SUBMIT\(([\w, ]*)\)` - submit")
_OUTPUT_TYPE = re.compile(r"^ *- \{(\w+)\}(?: +# note: the value you produce (.*))?$", re.MULTILINE)
_LLM_CALLS = re.compile(r"max (\d+) sub-LLM calls")
_BATCHED = re.compile(r"^ *- `rlm_query_batched\((?:(\w+): )?", re.MULTILINE)
_CHILDREN = (
    re.compile(
        r"(?:at most|up to|no more than|maximum of|max(?:imum)?|limit(?: is| of)?:?)\s+(\d+)\s+(?:\w+\s+){0,2}child",
        re.I,
    ),
    re.compile(r"(\d+)\s+(?:\w+\s+){0,2}child(?:ren)?\b", re.I),
    re.compile(r"child(?:ren)?\b[^.\n\d]{0,60}?(?:at most|up to|limit(?:ed)? to|maximum)\D{0,10}(\d+)", re.I),
)


@dataclass(frozen=True)
class Variable:
    """One REPL variable: its name, the length of its value and the preview that the prompt shows."""

    name: str
    length: int
    preview: str


@dataclass(frozen=True)
class Action:
    """A request for the next REPL program.

    Attributes:
        variables: The REPL's input variables by name.
        outputs: Output names of SUBMIT with their JSON types (``string`` unless the prompt says otherwise).
        steps: What has run so far, with real outputs.
        iteration: Number of the program asked for, from 1.
        max_iterations: How many programs may run in all.
        max_children: Children that one Turn may start; 0 when there is no recursion.
        max_llm_calls: Prompts that may be sent to the Sub model.
        children_parameter: Name of the parameter of ``rlm_query_batched``, or an empty text.
    """

    variables: dict[str, Variable]
    outputs: dict[str, str]
    steps: tuple[Step, ...]
    iteration: int
    max_iterations: int
    max_children: int
    max_llm_calls: int
    children_parameter: str

    @property
    def left(self) -> int:
        """Programs that can still run, this one included."""
        return self.max_iterations - self.iteration + 1


@dataclass(frozen=True)
class Extraction:
    """A request for final outputs from a trajectory that ended without SUBMIT."""

    variables: dict[str, Variable]
    outputs: dict[str, str]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Plain:
    """Any other prompt: the text of the last user message."""

    text: str


def recognise(messages: Sequence[Message]) -> Action | Extraction | Plain:
    """Tell which kind of prompt the messages are."""
    system = "\n".join(m.content for m in messages if m.role in ("system", "developer"))
    for message in reversed(messages):
        if message.role == "user" and _sections(message.content):
            return _read_rlm(system, message.content)
    asked = [m.content for m in messages if m.role in ("user", "tool") and m.content.strip()]
    return Plain(asked[-1] if asked else messages[-1].content)


def _sections(text: str) -> tuple[str, str, str] | None:
    """The texts of variables_info, repl_history and (empty for an extraction) iteration with what follows."""
    variables = re.search(_MARKER.format("variables_info"), text, re.MULTILINE)
    history = re.search(_MARKER.format("repl_history"), text, re.MULTILINE)
    if variables is None or history is None:
        return None
    marks = list(re.finditer(_MARKER.format("iteration"), text, re.MULTILINE))
    close = marks[-1] if marks and re.match(r"\s*\d+/\d+", text[marks[-1].end() :]) else None
    end = close.start() if close else max(text.rfind("\n\nRespond with the corresponding output"), history.end())
    body = text[history.end() : end].strip("\n")
    return text[variables.end() : history.start()], body, text[close.end() :] if close else ""


def _read_rlm(system: str, text: str) -> Action | Extraction:
    sections = _sections(text)
    assert sections is not None
    variables, steps = _read_variables(sections[0]), read_steps(sections[1])
    if not sections[2]:
        fields = _FIELD.findall(text[text.rfind("\n\nRespond with the corresponding output") :])
        return Extraction(variables, {n: _json_type(t) for n, t in fields if n != "completed"}, steps)
    number, total = re.findall(r"\d+", sections[2])[:2]
    calls, batched = _LLM_CALLS.search(system), _BATCHED.search(system)
    return Action(
        variables,
        _read_outputs(system),
        steps,
        int(number),
        int(total),
        _children(system) if batched else 0,
        int(calls.group(1)) if calls else DEFAULT_LLM_CALLS,
        (batched.group(1) or "") if batched else "",
    )


def _children(system: str) -> int:
    found = (match for pattern in _CHILDREN if (match := pattern.search(system)))
    match = next(found, None)
    return int(match.group(1)) if match else DEFAULT_CHILDREN


def _read_outputs(system: str) -> dict[str, str]:
    submit = _SUBMIT.search(system)
    names = [name.strip() for name in submit.group(1).split(",")] if submit else ["answer"]
    types = {name: _noted_type(note) for name, note in _OUTPUT_TYPE.findall(system)}
    return {name: types.get(name, "string") for name in names if name}


def _noted_type(note: str) -> str:
    for mark, kind in (("True or False", "boolean"), ("single int", "integer"), ("single float", "number")):
        if mark in note:
            return kind
    schema = re.search(r'"type": "(\w+)"', note)
    return schema.group(1) if schema else "string"


def _json_type(annotation: str) -> str:
    simple = {"int": "integer", "float": "number", "bool": "boolean"}
    for prefix, kind in (("list", "array"), ("dict", "object"), *simple.items()):
        if annotation.startswith(prefix):
            return kind
    return "string"


def _read_variables(text: str) -> dict[str, Variable]:
    marks = list(_VARIABLE.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {m.group(1): _read_variable(m.group(1), text[m.end() : end]) for m, end in zip(marks, ends, strict=True)}


def _read_variable(name: str, text: str) -> Variable:
    length = _LENGTH.search(text)
    preview = re.split(r"^ {0,4}Preview:\n {0,4}```\n", text, maxsplit=1, flags=re.MULTILINE)[-1]
    preview = preview.rpartition("```")[0]
    lines = [line.removeprefix("    ") for line in preview.splitlines()]
    return Variable(name, int(length.group(1).replace(",", "")) if length else 0, "\n".join(lines).rstrip())
