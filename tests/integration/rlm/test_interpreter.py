"""BrokerInterpreter over a real gRPC stream."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from dspy.primitives.code_interpreter import (
    CodeExecutionError,
    CodeInterpreter,
    CodeInterpreterError,
    FinalOutput,
)

from services.common.errors import FleetError
from services.rlm.budget.gate import Dimension, LocalGate
from services.rlm.events import (
    BudgetExhausted,
    IterationCompleted,
    OutputDelta,
    OutputFinal,
    ToolCalled,
    ToolCompleted,
    Warned,
)
from services.rlm.interpreter.broker import BrokerInterpreter, InterpreterLimits
from services.rlm.invocation.finalization import LoopEnded
from services.rlm.invocation.scope import InvocationScope
from tests.fakes.attach_servicer import AttachServicer, FakeSandbox, attach_server
from tests.fakes.rlm_events import KeptEvents

LEASE = "leases/one"


class Bench:
    """An interpreter bound to a scope, run from a worker thread."""

    def __init__(self, servicer: AttachServicer, stub: Any) -> None:
        self.servicer = servicer
        self.loop = asyncio.get_running_loop()
        self.limits = InterpreterLimits(execution_timeout_seconds=30, max_output_chars=400, step_output_bytes=100_000)
        self.interpreter = BrokerInterpreter(stub, LEASE, 1, self.loop, self.limits)
        self.sink = KeptEvents()

    def bind(self, limits: dict[Dimension, int] | None = None, **handlers: Any) -> InvocationScope:
        now = time.monotonic()
        self.scope = InvocationScope(
            sink=self.sink,
            gate=LocalGate(limits or {}),
            tools=handlers,
            deadline=now + 30,
            work_deadline=now + 20,
            recursion=False,
            max_iters=12,
        )
        self.interpreter.bind(self.scope)
        self.interpreter.output_fields = [{"name": "answer", "type": "str"}]
        return self.scope

    async def run(self, code: str, **variables: Any) -> Any:
        return await asyncio.to_thread(self.interpreter.execute, code, variables)

    @property
    def sandbox(self) -> FakeSandbox:
        return self.servicer.sandboxes[LEASE]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with attach_server() as (servicer, stub):
        bench = Bench(servicer, stub)
        bench.bind()
        yield bench
        await bench.interpreter.aclose()


async def test_it_is_a_code_interpreter_that_keeps_state(bench: Bench) -> None:
    assert isinstance(bench.interpreter, CodeInterpreter)
    assert await bench.run("x = 20\nprint('hi')") == "hi\n"
    assert await bench.run("x + 1") == "21"
    assert await bench.run("[]") == "[]"
    assert await bench.run("x = 3") == ""
    assert await bench.run("print('a'); SUBMIT(answer='b')") == FinalOutput({"answer": "b"})
    assert [event.text for event in bench.sink.of(OutputFinal)] == ["hi\n", "21", "[]", "", "a\n"]
    assert [event.iteration for event in bench.sink.of(IterationCompleted)] == [1, 2, 3, 4, 5]
    assert bench.sink.of(OutputDelta)[0].text == "hi\n"
    assert [step.output for step in bench.scope.steps.records][-1] == "FINAL: {'answer': 'b'}"


async def test_errors_are_what_native_rlm_shows_the_model(bench: Bench) -> None:
    with pytest.raises(SyntaxError, match="SyntaxError"):
        await bench.run("def (")
    with pytest.raises(CodeExecutionError, match="ZeroDivisionError"):
        await bench.run("print('before')\n1/0")
    assert "Output before that:\nbefore" in bench.sink.of(OutputFinal)[-1].text
    assert bench.scope.steps.records[-1].output.startswith("[Error] ZeroDivisionError")


async def test_long_output_is_head_and_tail_with_its_full_length(bench: Bench) -> None:
    text = await bench.run("print('A' * 5000 + 'Z' * 5000)")
    assert len(text) <= 400
    assert text.startswith("A")
    assert text.rstrip().endswith("Z")
    assert "10,001 bytes" in text
    event = bench.sink.of(OutputFinal)[0]
    assert event.truncated
    assert event.full_length == 10_001


async def test_variables_cross_once_and_are_pristine_at_every_step(bench: Bench) -> None:
    big = "é" * (3 << 20)
    rows = [{"a": 1}]
    for _ in range(3):
        assert await bench.run("print(len(big), rows); rows.append(2); big = ''", big=big, rows=rows) == (
            f"{3 << 20} [{{'a': 1}}]\n"
        )
    assert bench.sandbox.received_bytes == len(big.encode()) + len(b'[{"a":1}]')
    with pytest.raises(CodeInterpreterError, match="not JSON"):
        await bench.run("1", bad={1, 2})


async def test_tools_run_concurrently_with_the_budget_and_the_events(bench: Bench) -> None:
    together = threading.Barrier(2, timeout=10)

    async def meet(who: str, note: str = "") -> dict[str, str]:
        await asyncio.to_thread(together.wait)
        return {"met": who + note}

    scope = bench.bind({Dimension.TOOL_CALLS: 2}, meet=meet)

    def forward(who: str, note: str = "") -> Any:
        call = asyncio.run_coroutine_threadsafe(scope.tools["meet"](who=who, note=note), bench.loop)
        return call.result()

    bench.interpreter.tools["meet"] = forward
    code = """
from concurrent.futures import ThreadPoolExecutor
import threading
name = threading.current_thread().name
def ask(who):
    threading.current_thread().name = name
    return meet(who, note='!')
with ThreadPoolExecutor(2) as pool:
    print(sorted(str(r) for r in pool.map(ask, ['a', 'b'])))
"""
    assert "{'met': 'a!'}" in await bench.run(code)
    assert len(bench.sink.of(ToolCalled)) == 2
    assert {event.output for event in bench.sink.of(ToolCompleted)} == {'{"met":"a!"}', '{"met":"b!"}'}
    with pytest.raises(CodeExecutionError, match="tool_calls is spent"):
        await bench.run("meet('c')")
    assert bench.sink.of(BudgetExhausted) == [BudgetExhausted(Dimension.TOOL_CALLS, finalizes=True)]
    assert "2 more steps" in bench.sink.of(OutputFinal)[-1].text
    assert "1 more step:" in await bench.run("print(1)")
    with pytest.raises(LoopEnded):
        await bench.run("print(2)")


async def test_a_result_that_is_not_json_is_an_error_in_the_repl(bench: Bench) -> None:
    bench.interpreter.tools["odd"] = lambda: {1, 2}
    with pytest.raises(CodeExecutionError, match="odd gave a set that is not JSON"):
        await bench.run("odd()")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("llm_query('')", "prompt is blank"),
        ("llm_query(3)", "prompt must be a string"),
        ("llm_query_batched('abc')", "prompts must be a list"),
        ("llm_query_batched([])", "at least one"),
        ("llm_query_batched(['a', None])", r"prompts\[1\] must be a string"),
    ],
)
async def test_prompts_are_checked_before_anything_is_reserved(bench: Bench, call: str, message: str) -> None:
    bench.bind({Dimension.LLM_CALLS: 2})
    bench.interpreter.tools.update(llm_query=lambda prompt: "x", llm_query_batched=lambda prompts: ["x"])
    with pytest.raises(CodeExecutionError, match=message):
        await bench.run(call)
    assert bench.scope.reserve(Dimension.LLM_CALLS, 2).used == 2


async def test_a_batch_is_granted_whole_or_not_at_all(bench: Bench) -> None:
    bench.bind({Dimension.LLM_CALLS: 3})
    bench.interpreter.tools["llm_query_batched"] = lambda prompts: [prompt.upper() for prompt in prompts]
    assert await bench.run("llm_query_batched(['a', 'b'])") == "['A', 'B']"
    with pytest.raises(CodeExecutionError, match="has 1 of 3 left and this call asks for 2"):
        await bench.run("llm_query_batched(['a', 'b'])")
    assert bench.sink.of(BudgetExhausted) == []
    assert await bench.run("llm_query_batched(['c'])") == "['C']"
    with pytest.raises(CodeExecutionError, match="llm_calls is spent"):
        await bench.run("llm_query_batched(['d'])")


async def test_printing_past_the_budget_ends_the_work(bench: Bench) -> None:
    bench.bind({Dimension.OUTPUT_BYTES: 10})
    assert "output_bytes is spent" in await bench.run("print('x' * 50)")
    assert bench.sink.of(BudgetExhausted) == [BudgetExhausted(Dimension.OUTPUT_BYTES, finalizes=True)]


async def test_the_last_step_of_the_ledger_ends_the_loop(bench: Bench) -> None:
    bench.bind({Dimension.ITERATIONS: 2})
    await bench.run("print(1)")
    with pytest.raises(LoopEnded):
        await bench.run("print(2)")
    assert bench.sink.of(BudgetExhausted) == [BudgetExhausted(Dimension.ITERATIONS, finalizes=True)]
    assert [step.output for step in bench.scope.steps.records] == ["1\n", "2\n"]


async def test_cancel_returns_at_once_and_interrupts_the_sandbox(bench: Bench) -> None:
    async def forever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    begun, stopped = threading.Event(), threading.Event()
    scope = bench.bind(wait=forever)
    bench.interpreter.tools["wait"] = _forwarding(bench, "wait")
    running = asyncio.create_task(bench.run("wait()"))
    assert await asyncio.to_thread(begun.wait, 10)
    began = time.monotonic()
    scope.cancel()
    with pytest.raises(FleetError, match="TURN_CANCELLED"):
        await running
    assert time.monotonic() - began < 0.5
    assert await asyncio.to_thread(stopped.wait, 2)
    await _until(lambda: len(bench.sandbox.cancelled) == 1)


async def test_the_clock_interrupts_a_step_and_keeps_its_output(bench: Bench) -> None:
    running = asyncio.create_task(bench.run("import time\nprint('so far')\nwhile True: time.sleep(0.01)"))
    await asyncio.to_thread(bench.sink.wait_for, OutputDelta)
    bench.scope.finalization.end_by_clock()
    bench.interpreter.interrupt()
    with pytest.raises(LoopEnded):
        await running
    assert "so far" in bench.scope.steps.records[0].output
    with pytest.raises(LoopEnded):
        await bench.run("print('never')")


async def test_a_dropped_stream_is_attached_again_without_loss(bench: Bench) -> None:
    running = asyncio.create_task(
        bench.run("import time\nfor i in range(20):\n    print(i)\n    time.sleep(0.01)\nprint('end')")
    )
    await asyncio.to_thread(bench.sink.wait_for, OutputDelta)
    bench.servicer.cut()
    assert await running == "".join(f"{i}\n" for i in range(20)) + "end\n"
    assert "".join(event.text for event in bench.sink.of(OutputDelta)) == await_text()
    assert bench.servicer.attaches == 2
    assert await bench.run("i") == "19"


def await_text() -> str:
    return "".join(f"{i}\n" for i in range(20)) + "end\n"


async def test_a_lost_sandbox_is_terminal(bench: Bench) -> None:
    running = asyncio.create_task(bench.run("import time\nprint(1)\ntime.sleep(0.5)"))
    await asyncio.to_thread(bench.sink.wait_for, OutputDelta)
    from fleet.sandbox.v1 import attach_pb2

    bench.sandbox.say(lost=attach_pb2.Lost(reason="The sandbox was deleted."))
    with pytest.raises(CodeInterpreterError, match="deleted"):
        await running
    with pytest.raises(CodeInterpreterError, match="deleted"):
        await bench.run("1")


async def test_a_refused_lease_is_terminal_without_tries(bench: Bench) -> None:
    bench.servicer.refuse = grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(CodeInterpreterError):
        await bench.run("1")
    assert bench.servicer.attaches == 1


async def test_set_ups_are_no_steps_and_are_replayed_after_a_dead_worker(bench: Bench) -> None:
    await bench.run("history = _raw_history.split()", _raw_history="a b")
    assert bench.scope.iteration == 0
    assert await bench.run("print(history)") == "['a', 'b']\n"
    with pytest.raises(CodeExecutionError, match="variables, imports and functions of earlier steps are gone"):
        await bench.run("die()")
    assert bench.sink.of(Warned)[0].code == "state_lost"
    assert await bench.run("print(history)") == "['a', 'b']\n"
    assert bench.scope.iteration == 3


async def test_a_worker_that_died_between_two_turns_is_set_up_afresh(bench: Bench) -> None:
    await bench.run("1", _raw_a="a")
    bench.sandbox.died_between = True
    assert await bench.run("b = _raw_b", _raw_b="b") == ""
    assert await bench.run("print(_raw_a, b)") == "a b\n"
    assert [event.code for event in bench.sink.of(Warned)] == ["state_lost"]
    assert bench.scope.iteration == 1


async def test_values_that_the_sandbox_dropped_are_sent_again(bench: Bench) -> None:
    await bench.run("print(big)", big="x" * 1000)
    bench.sandbox.drop_values()
    assert await bench.run("print(len(big))", big="x" * 1000) == "1000\n"
    assert bench.sandbox.received_bytes == 2000
    assert bench.scope.iteration == 2


async def test_an_interrupted_step_that_ends_late_holds_the_next_one_back(bench: Bench) -> None:
    scope = bench.bind()
    scope.finalization.deadline = time.monotonic() + 5.05
    code = """
import time
print('stubborn')
def run():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        try: time.sleep(0.01)
        except KeyboardInterrupt: pass
run()
"""
    running = asyncio.create_task(bench.run(code))
    await asyncio.to_thread(bench.sink.wait_for, OutputDelta)
    scope.finalization.end_by_clock()
    bench.interpreter.interrupt()
    with pytest.raises(LoopEnded):
        await running
    assert "gave no output in time" in scope.steps.records[0].output
    bench.bind()
    assert await bench.run("print('next')") == "next\n"


async def test_results_and_code_have_an_upper_size(bench: Bench) -> None:
    bench.interpreter.tools["flood"] = lambda: "x" * (9 << 20)
    with pytest.raises(CodeExecutionError, match="at most 8,388,608 are allowed"):
        await bench.run("flood()")
    with pytest.raises(CodeExecutionError, match="longer than 4,194,304 bytes"):
        await bench.run("#" * (5 << 20))


async def test_tools_that_change_before_the_stream_is_up_are_told(bench: Bench) -> None:
    bench.interpreter.tools["first"] = lambda: 1
    bench.interpreter.start()
    bench.interpreter.tools["second"] = lambda: 2
    bench.interpreter._tools_registered = False
    assert await bench.run("first() + second()") == "3"


async def test_a_failing_set_up_is_no_error_of_the_model(bench: Bench) -> None:
    with pytest.raises(CodeInterpreterError, match="could not be set up"):
        await bench.run("1/0", _raw_history="a")


async def test_a_thread_of_an_earlier_turn_cannot_act(bench: Bench) -> None:
    called: list[str] = []
    bench.interpreter.tools["act"] = lambda: called.append("!")
    late = """
import threading
go, said = threading.Event(), []
name = threading.current_thread().name
def later():
    threading.current_thread().name = name
    go.wait(10)
    try: act()
    except RuntimeError as error: said.append(str(error))
thread = threading.Thread(target=later); thread.start()
"""
    await bench.run(late)
    bench.scope.end()
    bench.interpreter.unbind()
    bench.bind()
    assert "is over" in await bench.run("go.set(); thread.join(5); said[0]")
    assert called == []


def _forwarding(bench: Bench, name: str) -> Callable[[], Any]:
    from services.rlm.invocation.scope import enter_scope
    from services.rlm.tools import ToolDeclaration, native_tool

    tool = native_tool(ToolDeclaration(name, "Waits."))

    def call() -> Any:
        enter_scope(bench.scope)
        return tool()

    return call


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)
