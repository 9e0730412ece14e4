"""NativeRlm: real dspy.RLM, stock dspy.LM over HTTP, the interpreter over gRPC."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
import weakref
from typing import Any

import dspy
import pytest

from services.common.errors import FleetError
from services.rlm.budget.gate import Asked, Dimension, LocalGate
from services.rlm.events import (
    BudgetExhausted,
    BudgetUpdated,
    Code,
    IterationCompleted,
    IterationStarted,
    LmCalled,
    LmCompleted,
    OutputDelta,
    OutputFinal,
    Reasoning,
    ToolCalled,
    ToolCompleted,
)
from services.rlm.tools import ToolDeclaration
from tests.fakes.rlm_bench import KEY, ROOT, SUB, rlm_bench
from tests.fakes.scripted_llm import Reply, Request, action, fields

pytestmark = pytest.mark.usefixtures("warm_llm")

LOOP = "import time\nprint('begun')\nwhile True: time.sleep(0.01)"


async def test_a_turn_answers_and_tells_everything_in_order() -> None:
    script = [
        action("x = len(question)\nprint(x)", "Look."),
        action("y = llm_query('count it')\nprint(y)"),
        action("SUBMIT(answer=f'{x} {y}')"),
    ]
    async with rlm_bench({ROOT: script, SUB: ["nine"]}) as bench:
        outcome = await bench.ask(limits={Dimension.LLM_CALLS: 4})
        assert outcome.outputs == {"answer": "9 nine"}
        assert (outcome.termination, outcome.iterations) == ("submit", 3)
        assert [(use.role, use.model, use.calls, use.prompt_tokens) for use in outcome.usage] == [
            ("root", ROOT, 3, 33), ("sub", SUB, 1, 11),
        ]  # fmt: skip
        told = [type(event) for event in bench.sink.events if not isinstance(event, OutputDelta)]
        first = [IterationStarted, LmCalled, LmCompleted, Reasoning, Code, OutputFinal, IterationCompleted]
        assert told[:7] == first
        assert [event.text for event in bench.sink.of(Reasoning)] == ["Look.", "Next step.", "Next step."]
        assert [event.purpose for event in bench.sink.of(LmCalled)] == ["action", "action", "llm_query", "action"]
        assert BudgetUpdated(Dimension.LLM_CALLS, 1, 4) in bench.sink.events
        assert "iteration" in bench.llm.requests[0].prompt
        assert "9" in bench.llm.of_model(ROOT)[1].prompt


async def test_the_books_are_asked_for_an_iteration_while_the_model_thinks() -> None:
    asked: list[int] = []

    class Books(LocalGate):
        def ask(self, dimension: Dimension, amount: int) -> Asked:
            asked.append(amount)
            return super().ask(dimension, amount)

    def think(request: Request) -> Reply:
        seen.append(len(asked))
        return Reply(action("print(1)" if len(seen) < 3 else "SUBMIT(answer='a')"))

    seen: list[int] = []
    async with rlm_bench({ROOT: think}) as bench:
        await bench.ask(gate=Books({Dimension.ITERATIONS: 5}))
    assert seen == [1, 2, 3], "asked before the model was"
    assert [event.used for event in bench.sink.of(BudgetUpdated)] == [1, 2, 3]


async def test_a_resident_rlm_keeps_globals_but_no_text_of_earlier_turns() -> None:
    script = [action("kept = 41"), action("SUBMIT(answer='a')"), action("SUBMIT(answer=str(kept + 1))")]
    async with rlm_bench({ROOT: script}) as bench:
        await bench.ask("first question")
        outcome = await bench.ask("second question")
        assert outcome.outputs == {"answer": "42"}
        assert "first question" not in bench.llm.requests[2].prompt
        assert "kept = 41" not in bench.llm.requests[2].prompt
        assert bench.servicer.attaches == 1


async def test_host_tools_reach_the_scope_and_are_counted() -> None:
    tool = ToolDeclaration(
        "look", "Looks.", {"where": {"type": "string"}, "deep": {"type": "boolean", "default": False}}
    )

    async def look(where: str, deep: bool = False) -> Any:
        return {"seen": where, "deep": deep}

    script = [action("print(look('here'), look(where='there', deep=True))"), action("SUBMIT('ok')")]
    async with rlm_bench({ROOT: script}, tools=(tool,)) as bench:
        await bench.ask(tools={"look": look}, limits={Dimension.TOOL_CALLS: 5})
        assert "{'seen': 'here', 'deep': False} {'seen': 'there', 'deep': True}" in bench.sink.of(OutputFinal)[0].text
        assert json.loads(bench.sink.of(ToolCalled)[1].input) == {"where": "there", "deep": True}
        assert bench.sink.of(ToolCompleted)[1].error == ""
        assert BudgetUpdated(Dimension.TOOL_CALLS, 2, 5) in bench.sink.events
        assert "look(where: string, deep: boolean)" in bench.llm.requests[0].prompt


async def test_a_blank_or_wrong_submit_is_mended_in_the_loop() -> None:
    script = [action("SUBMIT(answer='  ')"), action("SUBMIT(answer=None)"), action("SUBMIT(answer='good')")]
    async with rlm_bench({ROOT: script}) as bench:
        outcome = await bench.ask()
        assert outcome.outputs == {"answer": "good"}
        assert [event.error for event in bench.sink.of(OutputFinal)] == [True, True, False]
        assert "answer is blank" in bench.llm.requests[1].prompt


async def test_steps_that_run_out_end_in_an_extraction() -> None:
    script = [action("print('seen 7')"), action("print('more')"), fields(answer="7")]
    async with rlm_bench({ROOT: script}, max_iters=2) as bench:
        outcome = await bench.ask(max_iters=2)
        assert outcome.outputs == {"answer": "7"}
        assert (outcome.termination, outcome.iterations) == ("extract", 2)
        assert bench.sink.of(BudgetExhausted) == [BudgetExhausted(Dimension.ITERATIONS, finalizes=True)]
        extract = bench.llm.requests[2].prompt
        assert "seen 7" in extract
        assert "Reasoning: Next step." in extract
        assert bench.sink.of(LmCalled)[-1].purpose == "extract"


async def test_a_turns_own_smaller_limit_ends_the_loop_too() -> None:
    script = [action("print(1)"), fields(answer="early")]
    async with rlm_bench({ROOT: script}) as bench:
        outcome = await bench.ask(limits={Dimension.ITERATIONS: 1})
        assert (outcome.termination, outcome.iterations) == ("extract", 1)


async def test_a_blank_extraction_is_asked_for_once_more() -> None:
    script = [action("print(1)"), fields(answer="  "), fields(answer="mended")]
    async with rlm_bench({ROOT: script}) as bench:
        assert (await bench.ask(limits={Dimension.ITERATIONS: 1})).outputs == {"answer": "mended"}


async def test_an_extraction_that_stays_wrong_fails_the_turn() -> None:
    class Count(dspy.Signature):
        """Count."""

        question: str = dspy.InputField()
        answer: str = dspy.OutputField()
        score: float = dspy.OutputField()

    wrong = fields(answer="x", score="NaN")
    async with rlm_bench({ROOT: [action("1"), wrong, wrong]}, signature=Count) as bench:
        with pytest.raises(FleetError) as failed:
            await bench.ask(limits={Dimension.ITERATIONS: 1})
        assert failed.value.reason == "OUTPUT_INVALID"


async def test_a_spent_budget_leaves_two_actions_and_then_extracts() -> None:
    query = action("print(llm_query('q'))")
    script = {ROOT: [query, query, action("print('a')"), action("print('b')"), fields(answer="done")], SUB: ["s"]}
    async with rlm_bench(script) as bench:
        outcome = await bench.ask(limits={Dimension.LLM_CALLS: 1})
        assert (outcome.outputs, outcome.termination, outcome.iterations) == ({"answer": "done"}, "extract", 4)
        assert bench.sink.of(BudgetExhausted) == [BudgetExhausted(Dimension.LLM_CALLS, finalizes=True)]
        assert "llm_calls is spent: no new work starts. You have 2 more steps" in bench.llm.of_model(ROOT)[2].prompt
        assert "You have 1 more step" in bench.llm.of_model(ROOT)[3].prompt


async def test_the_clock_cuts_a_model_call_and_extracts_in_the_time_left() -> None:
    script = [action("print('found 5')"), Reply("late", delay=30), fields(answer="5")]
    async with rlm_bench({ROOT: script}) as bench:
        outcome = await bench.ask(seconds=6.0, wrap_up=5.2)
        assert (outcome.outputs, outcome.termination) == ({"answer": "5"}, "extract")
        assert bench.llm.requests[1].aborted.wait(2)
        assert bench.sink.of(BudgetExhausted) == [BudgetExhausted(Dimension.SECONDS, finalizes=True)]


async def test_the_clock_interrupts_a_step_and_extracts_from_its_output() -> None:
    async with rlm_bench({ROOT: [action(LOOP), fields(answer="begun")]}) as bench:
        outcome = await bench.ask(seconds=6.0, wrap_up=5.4)
        assert (outcome.termination, outcome.iterations) == ("extract", 1)
        assert "begun" in bench.llm.requests[1].prompt
        assert len(bench.sandbox.cancelled) == 1


async def test_no_answer_by_the_deadline_is_a_timeout() -> None:
    async with rlm_bench({ROOT: [Reply(delay=30), Reply(delay=30)]}) as bench:
        began = time.monotonic()
        with pytest.raises(FleetError) as failed:
            await bench.ask(seconds=0.8, wrap_up=0.4)
        assert failed.value.reason == "TURN_TIMED_OUT"
        assert time.monotonic() - began < 1.8


@pytest.mark.parametrize("where", ["model", "step", "llm_query", "batch", "tool"])
async def test_cancel_takes_less_than_a_second_wherever_the_turn_is(where: str) -> None:
    slow = Reply("late", delay=30)
    codes = {
        "step": LOOP,
        "llm_query": "llm_query('q')",
        "batch": "llm_query_batched(['a'] * 8)",
        "tool": "wait()",
    }
    begun, ended = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    root = slow if where == "model" else action(codes[where])
    tools = (ToolDeclaration("wait", "Waits."),)
    async with rlm_bench({ROOT: [root, slow], SUB: lambda request: slow}, tools=tools) as bench:
        run = bench.start(tools={"wait": wait})
        if where == "model":
            await asyncio.to_thread(bench.llm.wait_for, 1)
        elif where == "step":
            await asyncio.to_thread(bench.sink.wait_for, OutputDelta)
        elif where == "tool":
            await asyncio.to_thread(begun.wait, 10)
        else:
            await asyncio.to_thread(bench.llm.wait_for, {"llm_query": 2, "batch": 9}[where])
        began = time.monotonic()
        bench.scope.cancel()
        with pytest.raises(FleetError) as failed:
            await run
        assert failed.value.reason == "TURN_CANCELLED"
        assert time.monotonic() - began < 0.5
        in_flight = bench.llm.requests[-1]
        if where in ("model", "llm_query", "batch"):
            assert await asyncio.to_thread(in_flight.aborted.wait, 2)
        if where == "tool":
            assert await asyncio.to_thread(ended.wait, 2)
        assert bench.scope.usage() or where == "model"


async def test_cancelling_the_call_itself_stops_the_work() -> None:
    async with rlm_bench({ROOT: [Reply(delay=30)]}) as bench:
        run = bench.start()
        await asyncio.to_thread(bench.llm.wait_for, 1)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert bench.scope.cancelled
        assert await asyncio.to_thread(bench.llm.requests[0].aborted.wait, 2)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(f"bad key {KEY}", status=401), "MODEL_UNAUTHENTICATED"),
        (Reply("no such model", status=404), "MODEL_REQUEST_REJECTED"),
        (Reply(""), "MODEL_OUTPUT_INVALID"),
    ],
)
async def test_a_model_that_fails_fails_the_turn_without_leaks(reply: Reply, reason: str) -> None:
    async with rlm_bench({ROOT: lambda request: reply}) as bench:
        with pytest.raises(FleetError) as failed:
            await bench.ask()
        assert failed.value.reason == reason
        assert KEY not in f"{failed.value} {dict(failed.value.metadata)}"
        assert bench.llm.base_url not in failed.value.message
        assert bench.scope.usage()[0].calls >= 1


async def test_a_lost_sandbox_fails_the_turn() -> None:
    from fleet.sandbox.v1 import attach_pb2

    async with rlm_bench({ROOT: [action(LOOP)]}) as bench:
        run = bench.start()
        await asyncio.to_thread(bench.sink.wait_for, OutputDelta)
        bench.sandbox.say(lost=attach_pb2.Lost(reason="The sandbox was deleted."))
        with pytest.raises(FleetError, match="The sandbox was deleted") as failed:
            await run
        assert failed.value.reason == "INTERPRETER_FAILED"


async def test_a_resident_rlm_holds_nothing_of_a_turn_that_has_ended() -> None:
    async with rlm_bench({ROOT: lambda request: action("SUBMIT(answer='x')")}) as bench:
        for _ in range(10):
            await bench.ask()
        rlm = bench.native._rlm
        assert rlm is not None
        assert rlm.history == rlm.generate_action.history == []
        ended = weakref.ref(bench.scope)
        del bench.scope
        async with asyncio.timeout(5):
            # The worker's and the server's threads let go of their last frames when they next run.
            while ended() is not None:
                await asyncio.sleep(0.01)
                gc.collect()


async def test_turns_of_several_sessions_run_side_by_side() -> None:
    def reply(request: Request) -> str:
        name = request.prompt.split("session-")[1][0]
        return action(f"SUBMIT(answer=question + llm_query('{name}'))" if "Step 1" in request.prompt else "print(1)")

    script = {ROOT: reply, SUB: lambda request: request.prompt.strip()}
    async with rlm_bench(script) as one, rlm_bench(script) as other:
        outcomes = await asyncio.gather(one.ask("session-1"), other.ask("session-2"))
    assert [outcome.outputs["answer"] for outcome in outcomes] == ["session-11", "session-22"]
    assert [use.calls for outcome in outcomes for use in outcome.usage] == [2, 1, 2, 1]
