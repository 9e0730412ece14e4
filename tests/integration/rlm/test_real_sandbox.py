"""The interpreter and the native RLM on the real broker: bubblewrap sandboxes, the real agent, real gRPC."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput
from fleet.sandbox.v1 import lease_pb2, sandbox_service_pb2, sandbox_service_pb2_grpc
from google.protobuf.duration_pb2 import Duration

from config.loader import load
from services.common.channel import open_channel
from services.common.errors import FleetError
from services.rlm.budget.gate import LocalGate
from services.rlm.contract.capsules import HistoryCapsule
from services.rlm.events import OutputDelta, OutputFinal, ToolCalled, ToolCompleted, Warned
from services.rlm.interpreter.broker import BrokerInterpreter, InterpreterLimits
from services.rlm.invocation.finalization import LoopEnded
from services.rlm.invocation.scope import InvocationScope, enter_scope
from services.rlm.native import NativeRlm, RlmSpec
from services.rlm.tools import ToolDeclaration, native_tool
from services.sandbox.main import build_service
from tests.fakes.rlm_bench import ROOT, SUB, models
from tests.fakes.rlm_events import KeptEvents
from tests.fakes.scripted_llm import ScriptedLlm, action

pytestmark = [pytest.mark.usefixtures("warm_llm"), pytest.mark.timeout(40)]


class Real:
    """An interpreter on a lease of the real broker."""

    def __init__(self, stub: Any, lease: lease_pb2.Lease, timeout: float = 20.0) -> None:
        self.stub = stub
        self.lease = lease
        self.limits = InterpreterLimits(timeout, max_output_chars=1000, step_output_bytes=200_000)
        loop = asyncio.get_running_loop()
        self.interpreter = BrokerInterpreter(stub, lease.name, lease.epoch, loop, self.limits)
        self.sink = KeptEvents()

    def open(self, **tools: Any) -> InvocationScope:
        now = time.monotonic()
        self.sink = KeptEvents()
        self.scope = InvocationScope(
            sink=self.sink, gate=LocalGate({}), tools=tools,
            deadline=now + 60, work_deadline=now + 50, recursion=False, max_iters=50,
        )  # fmt: skip
        return self.scope

    def bind(self, **tools: Any) -> InvocationScope:
        self.interpreter.bind(self.open(**tools))
        self.interpreter.output_fields = [{"name": "answer", "type": "str"}]
        return self.scope

    async def run(self, code: str, **variables: Any) -> Any:
        enter_scope(self.scope)
        return await asyncio.to_thread(self.interpreter.execute, code, variables)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Real]:
    policy = load(profile="test", env={}, overrides=[f"storage.data_root={tmp_path}"], components=())
    broker = build_service(policy, env={})
    address = await broker.start()
    try:
        async with open_channel(address, service="sandbox", tokens=None) as channel:
            stub = sandbox_service_pb2_grpc.SandboxServiceStub(channel)
            lease = await stub.AcquireLease(
                sandbox_service_pb2.AcquireLeaseRequest(
                    request_id="root",
                    kind=lease_pb2.LEASE_KIND_ROOT,
                    owner=lease_pb2.LeaseOwner(session="s1"),
                    ttl=Duration(seconds=300),
                )
            )
            bench = Real(stub, lease)
            bench.bind()
            yield bench
            await bench.interpreter.aclose()
    finally:
        await broker.stop(0.2)


async def test_what_a_repl_user_expects(real: Real) -> None:
    async def add(a: int, b: int = 1) -> int:
        return a + b

    assert await real.run("import os, sys\nx = 20\nprint('hi')") == "hi\n"
    assert await real.run("x + 1") == "21"
    assert await real.run("0") == "0"
    assert "err" in await real.run("print('out'); print('err', file=sys.stderr); os.system('echo sub')")
    assert await real.run("print('a'); SUBMIT('b')") == FinalOutput({"answer": "b"})
    assert real.sink.of(OutputFinal)[-1].text == "a\n"
    with pytest.raises(SyntaxError):
        await real.run("def (")
    with pytest.raises(CodeExecutionError, match=r"(?s)line 2.*ZeroDivisionError"):
        await real.run("y = 1\n1 / 0")
    assert {event.stream for event in real.sink.of(OutputDelta)} == {"stdout", "stderr"}

    declared = ToolDeclaration("add", "Adds.", {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}})
    real.bind(add=add)
    tool = native_tool(declared)
    real.interpreter.tools["add"] = lambda a, b=1: tool(a=a, b=b)
    many = "from concurrent.futures import ThreadPoolExecutor as P\nwith P(6) as p: print(list(p.map(add, range(12))))"
    assert await real.run(many) == f"{list(range(1, 13))}\n"
    assert await real.run("add(1, b=4)") == "5"
    assert len(real.sink.of(ToolCalled)) == len(real.sink.of(ToolCompleted)) == 13
    with pytest.raises(CodeExecutionError, match="Arg a is invalid"):
        await real.run("add('x')")


async def test_large_inputs_cross_once_and_floods_are_cut(real: Real) -> None:
    big, began = "x" * (20 << 20), time.monotonic()
    assert await real.run("print(len(big)); big = 1", big=big) == f"{20 << 20}\n"
    first = time.monotonic() - began
    began = time.monotonic()
    for _ in range(3):
        assert await real.run("print(len(big))", big=big) == f"{20 << 20}\n"
    assert time.monotonic() - began < 3 * first
    flood = await real.run("for _ in range(200): print('y' * 10_000)")
    assert len(flood) <= 1000
    assert "2,000,200 bytes" in flood


async def test_a_dead_worker_is_replaced_and_the_capsules_are_back(real: Real) -> None:
    history = HistoryCapsule([{"request": "q", "answer": "a"}])
    setup = f"{history.sandbox_setup()}\n{history.sandbox_assignment('history', '_raw_history')}"
    await real.run(setup, _raw_history=history.to_sandbox().decode())
    assert await real.run("kept = 1; history[0]['answer']") == "'a'"
    with pytest.raises(CodeExecutionError, match="gone"):
        await real.run("import os; os._exit(3)")
    assert real.sink.of(Warned)[0].code == "state_lost"
    assert await real.run("len(history), 'kept' in globals()") == "(1, False)"


async def test_a_step_is_stopped_at_its_time_limit_and_by_the_clock(real: Real) -> None:
    await real.interpreter.aclose()
    short = Real(real.stub, real.lease, timeout=0.3)
    short.bind()
    assert await short.run("x = 7") == ""
    with pytest.raises(CodeExecutionError, match="time limit"):
        await short.run("while True: pass")
    assert await short.run("x") == "7"
    await short.interpreter.aclose()

    long = Real(real.stub, real.lease)
    scope = long.bind()
    running = asyncio.create_task(long.run("import time\nprint('so far')\nwhile True: time.sleep(0.01)"))
    await asyncio.to_thread(long.sink.wait_for, OutputDelta)
    scope.finalization.end_by_clock()
    long.interpreter.interrupt()
    with pytest.raises(LoopEnded):
        await running
    assert "so far" in scope.steps.records[0].output
    await long.interpreter.aclose()


async def test_the_clock_ends_a_step_that_waits_for_a_host_tool(real: Real) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    scope = real.bind(wait=wait)
    tool = native_tool(ToolDeclaration("wait", "Waits."))
    real.interpreter.tools["wait"] = lambda: tool()
    running = asyncio.create_task(real.run("print('before')\nwait()"))
    await asyncio.to_thread(begun.wait, 10)
    began = time.monotonic()
    scope.finalization.end_by_clock()
    real.interpreter.interrupt()
    with pytest.raises(LoopEnded):
        await running
    assert time.monotonic() - began < 2
    assert "before" in scope.steps.records[0].output
    assert await asyncio.to_thread(ended.wait, 2)
    assert real.sink.of(ToolCompleted)[0].error == "wait was interrupted."


async def test_cancel_is_at_once_and_a_released_lease_is_terminal(real: Real) -> None:
    running = asyncio.create_task(real.run("print('begun', flush=True)\nwhile True: pass"))
    await asyncio.to_thread(real.sink.wait_for, OutputDelta)
    began = time.monotonic()
    real.scope.cancel()
    with pytest.raises(FleetError, match="TURN_CANCELLED"):
        await running
    assert time.monotonic() - began < 0.5
    await real.stub.ReleaseLease(sandbox_service_pb2.ReleaseLeaseRequest(name=real.lease.name))
    real.bind()
    with pytest.raises(CodeInterpreterError):
        await real.run("1")


_LEFT_RUNNING = """
import threading
gate, told = threading.Event(), []
def late():
    gate.wait()
    for act in (lambda: add(1), lambda: SUBMIT('late')):
        try: told.append(act())
        except RuntimeError as error: told.append(str(error))
    print('late', flush=True)
thread = threading.Thread(target=late)
thread.start()
add(2)
"""


async def test_what_a_turn_left_running_can_not_act_in_the_next(real: Real) -> None:
    added: list[tuple[str, int]] = []

    def bind(turn: str) -> None:
        async def add(n: int) -> int:
            added.append((turn, n))
            return n + 1

        tool = native_tool(ToolDeclaration("add", "Adds one.", {"n": {"type": "integer"}}))
        real.bind(add=add)
        real.interpreter.tools["add"] = lambda n: tool(n=n)

    bind("first")
    assert await real.run(_LEFT_RUNNING) == "3"
    real.interpreter.unbind()
    bind("second")
    assert await real.run("gate.set(); thread.join(); print('own'); add(3)") == "own\n"
    assert added == [("first", 2), ("second", 3)]
    assert [event.text for event in real.sink.of(OutputDelta)] == ["own\n"]
    told = str(await real.run("told"))
    assert "not started by the running Turn" in told
    assert "SUBMIT() can't be called" in told
    assert "kept" in await real.run("kept = 'globals are kept'; kept")


async def test_a_turn_with_capsules_on_a_resident_rlm(real: Real) -> None:
    class Chat(dspy.Signature):
        """Answer."""

        request: str = dspy.InputField()
        history: dspy.History = dspy.InputField()
        answer: str = dspy.OutputField()

    script = [
        action("seen = len(history)\nprint(llm_query_batched(['a', 'b']))"),
        action("SUBMIT(answer=f'{request} {seen}')"),
        action("SUBMIT(answer=f'{request} {seen} {len(history)}')"),
    ]
    with ScriptedLlm({ROOT: script, SUB: lambda request: "s"}) as llm:
        factory = models(llm)
        spec = RlmSpec(Chat, (), 6, 8, 1000, "root", factory.describe())
        native = NativeRlm(spec, real.interpreter, factory)
        outcome = await native.run({"request": "one", "history": HistoryCapsule([])}, real.open())
        assert outcome.outputs == {"answer": "one 0"}
        assert "['s', 's']" in real.sink.of(OutputFinal)[0].text
        history = HistoryCapsule([{"request": "one", "answer": "one 0"}])
        outcome = await native.run({"request": "two", "history": history}, real.open())
        assert outcome.outputs == {"answer": "two 0 1"}
        await native.close()
