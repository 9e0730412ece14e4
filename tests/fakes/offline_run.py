"""Drives the offline model's own steps without HTTP or DSPy: its programs run with ``exec`` in this process."""

from __future__ import annotations

import contextlib
import hashlib
import io
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.offline.prompt import Action, Variable
from services.offline.respond import next_step
from services.offline.sub import answer_prompt
from services.offline.trajectory import Step

CHILD_OUTPUTS = {"answer": "string", "evidence": "array", "gaps": "array", "result_files": "array"}


class StagedFile:
    """One attached file, as the sandbox shows it."""

    def __init__(self, number: int, filename: str, data: bytes) -> None:
        self.id, self.filename, self.content_type = f"a{number}", filename, "text/plain"
        self.byte_size, self.sha256 = len(data), hashlib.sha256(data).hexdigest()
        self.path = f"attachments/{self.id}/{filename}"
        self._data = data

    def bytes(self) -> bytes:
        return self._data


class _Submitted(BaseException):
    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values


@dataclass
class Finished:
    """A finished run: what was submitted, the steps, the runs of the children, and the globals that are left."""

    values: dict[str, Any]
    steps: list[Step] = field(default_factory=list)
    children: list[Finished] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def answer(self) -> str:
        return str(self.values["answer"])

    @property
    def titles(self) -> list[str]:
        return [step.title for step in self.steps]


class Driver:
    """Runs Roots and children.

    Args:
        scratch: Folder for the children's staged copies.
        llm: The Sub model.
        broken: For step titles: what happens instead of the step, once each.
        child_status: Status of every child's outcome.
    """

    def __init__(
        self,
        scratch: Path,
        llm: Callable[[str], str] = answer_prompt,
        broken: Mapping[str, str] | None = None,
        child_status: str = "completed",
    ) -> None:
        self.scratch, self.llm, self.child_status = scratch, llm, child_status
        self.broken = dict(broken or {})

    def root(
        self,
        request: str,
        files: Mapping[str, str | bytes] | None = None,
        *,
        history: Sequence[Mapping[str, str]] = (),
        max_children: int = 4,
        max_iterations: int = 12,
        outputs: Mapping[str, str] | None = None,
        kept: Mapping[str, Any] | None = None,
    ) -> Finished:
        """Answer a request about some files; ``kept`` are the globals of an earlier run."""
        contents = [(name, text.encode() if isinstance(text, str) else text) for name, text in (files or {}).items()]
        staged = [StagedFile(n, name, data) for n, (name, data) in enumerate(contents)]
        finished = Finished({})

        def rlm_query_batched(queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
            finished.calls += queries
            return [self._child(finished, {item.path: item for item in staged}, query) for query in queries]

        names: dict[str, Any] = {"request": request, "history": list(history), "attachments": staged}
        names = {**(kept or {}), **names, "rlm_query_batched": rlm_query_batched}
        limits = (max_iterations, max_children, 32)
        return self._run(names, outputs or {"answer": "string"}, limits, finished)

    def _child(self, parent: Finished, staged: Mapping[str, StagedFile], query: Mapping[str, Any]) -> dict[str, Any]:
        if self.child_status != "completed":
            return {"status": self.child_status, "answer": "", "evidence": [], "gaps": [], "error": {"category": "x"}}
        inputs = []
        for path in query["inputs"]:
            copy = self.scratch / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(staged[path].bytes())
            inputs.append({"path": path, "local_path": str(copy)})
        names: dict[str, Any] = {"task": query["task"], "context": query.get("context", ""), "inputs": inputs}
        finished = self._run(names, CHILD_OUTPUTS, (8, 0, 12), Finished({}))
        parent.children.append(finished)
        return {"status": "completed", "error": None, **finished.values}

    def _run(
        self,
        names: dict[str, Any],
        outputs: Mapping[str, str],
        limits: tuple[int, int, int],
        finished: Finished,
    ) -> Finished:
        inputs = ("request", "history", "attachments", "task", "context", "inputs")
        variables = {name: self._variable(name, names[name]) for name in inputs if name in names}
        finished.names = names
        names.update({"llm_query": self.llm, "llm_query_batched": lambda prompts: [self.llm(p) for p in prompts]})
        for iteration in range(1, limits[0] + 1):
            step = next_step(Action(variables, dict(outputs), tuple(finished.steps), iteration, *limits, ""))
            title = step.code.splitlines()[0].removeprefix("# Step: ")
            try:
                output = self.broken.pop(title) if title in self.broken else _execute(step.code, names)
            except _Submitted as submitted:
                finished.steps.append(Step(title, step.code, ""))
                finished.values = submitted.values
                return finished
            finished.steps.append(Step(title, step.code, output))
        raise AssertionError("the run ended without SUBMIT")

    @staticmethod
    def _variable(name: str, value: object) -> Variable:
        text = value if isinstance(value, str) else repr(value)
        return Variable(name, len(text), text if len(text) <= 1000 else text[:500] + "..." + text[-500:])


def _execute(code: str, names: dict[str, Any]) -> str:
    def submit(**values: Any) -> None:
        raise _Submitted(values)

    names["SUBMIT"] = submit
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "<step>", "exec"), names)
    except Exception as error:
        return f"[Error] {''.join(traceback.format_exception_only(error))}"
    return printed.getvalue()
