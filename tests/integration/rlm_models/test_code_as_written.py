"""A real dspy.RLM runs the code that the model wrote, whatever its reply looks like."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.primitives.code_interpreter import FinalOutput

from services.rlm.events import IterationStarted, LmCalled, Reasoning
from services.rlm.invocation.callbacks import StepCallback
from tests.fakes.rlm_models import model_bench
from tests.fakes.scripted_llm import Reply, action, fields

pytestmark = pytest.mark.usefixtures("warm_llm")


class _Recorder:
    """A REPL that keeps the programs it is given and ends when one of them calls SUBMIT."""

    def __init__(self) -> None:
        self.tools: dict[str, Callable[..., Any]] = {}
        self.programs: list[str] = []

    def start(self) -> None:
        """Nothing to start."""

    def shutdown(self) -> None:
        """Nothing to end."""

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Keep `code`."""
        self.programs.append(code)
        return FinalOutput({"answer": "done"}) if "SUBMIT" in code else "ran"


PROGRAMS = [
    "p = '''Reply as\n```json\n{}\n```'''\nprint(llm_query(p))",
    "import re\nprint(re.findall(r'```(\\w+)', doc))",
    "x = '''\n[[ ## answer ## ]]\n[[ ## code ## ]]\n[[ ## completed ## ]]\n'''\nprint(x)",
    "print(f'{name}\\n```\\n{text!r:>10}')  # ``` here",
]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_the_program_that_runs_is_the_one_that_was_written(program: str) -> None:
    replies = [action(program), f"[[ ## reasoning ## ]]\nr\n[[ ## code ## ]]\n{program}", action("SUBMIT(answer='x')")]
    interpreter = _Recorder()
    with model_bench(replies) as bench, dspy.context(**bench.models.settings()):
        result = await dspy.RLM("question -> answer", max_iters=4).acall(interpreter, question="?")
        assert result.answer == "done"
        assert [ast.dump(ast.parse(code)) for code in interpreter.programs[:2]] == [ast.dump(ast.parse(program))] * 2
        assert len(bench.llm.requests) == 3


async def test_bad_replies_in_the_middle_keep_the_turn_alive() -> None:
    cut = Reply(action("delete_old()"), finish_reason="length")
    replies = [
        action("a = 1", "One."),
        "",
        cut,
        action("b = 2", "Two."),
        "prose",
        action("SUBMIT(answer='x')", "Three."),
    ]
    interpreter = _Recorder()
    with model_bench(replies) as bench:
        with dspy.context(**bench.models.settings([StepCallback(bench.scope)])):
            await dspy.RLM("question -> answer", max_iters=4).acall(interpreter, question="?")
        assert interpreter.programs == ["a = 1", "b = 2", "SUBMIT(answer='x')"]
        assert [event.text for event in bench.sink.of(Reasoning)] == ["One.", "Two.", "Three."]
        assert [event.iteration for event in bench.sink.of(IterationStarted)] == [1, 2, 3]
        purposes = [event.purpose for event in bench.sink.of(LmCalled)]
        assert purposes == ["action", "action", "re-ask 1", "re-ask 2", "action", "re-ask 1"]
        assert bench.scope.usage()[0].calls == len(bench.llm.requests) == 6


async def test_extraction_is_asked_again_too() -> None:
    replies = [action("a = 1"), "", fields(answer="from the trajectory")]
    with model_bench(replies) as bench, dspy.context(**bench.models.settings()):
        result = await dspy.RLM("question -> answer", max_iters=1).acall(_Recorder(), question="?")
        assert result.answer == "from the trajectory"
        assert [event.purpose for event in bench.sink.of(LmCalled)] == ["action", "extract", "re-ask 1"]
