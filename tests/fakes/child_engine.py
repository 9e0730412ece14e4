"""An engine that runs a test's own coroutine in place of a child's RLM."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from services.recursion.children.ports import Answer, Job
from services.rlm.models.usage import ModelUse

Script = Callable[[Job], Awaitable[Answer]]

USED = ModelUse("child", "scripted", 1, 11, 7)


def answer(text: str, **outputs: Any) -> Answer:
    return Answer({"answer": text, "evidence": [], "gaps": [], "result_files": [], **outputs}, "submit", 1)


async def echo(job: Job) -> Answer:
    """Answers with the task."""
    return answer(f"done: {job.inputs['task']}")


class ScriptedChild:
    def __init__(self, script: Script, job: Job) -> None:
        self._script = script
        self._job = job

    async def run(self) -> Answer:
        return await self._script(self._job)

    def usage(self) -> Sequence[ModelUse]:
        return [USED]


class ScriptedEngine:
    """Runs `script` for each child; `jobs` are those so far."""

    def __init__(self, script: Script = echo) -> None:
        self.script = script
        self.jobs: list[Job] = []
        self.opened = False

    async def open(self) -> None:
        self.opened = True

    async def close(self) -> None:
        self.opened = False

    def prepare(self, job: Job) -> ScriptedChild:
        self.jobs.append(job)
        return ScriptedChild(self.script, job)
