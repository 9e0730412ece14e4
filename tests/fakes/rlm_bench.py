"""A NativeRlm with a scripted model and a broker that only attaches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import dspy

from config.llm import Llm, ModelRole
from services.rlm.budget.gate import BudgetGate, Dimension, LocalGate
from services.rlm.interpreter.broker import BrokerInterpreter, InterpreterLimits
from services.rlm.invocation.scope import InvocationScope
from services.rlm.models.factory import ModelFactory
from services.rlm.native import NativeRlm, RlmOutcome, RlmSpec
from services.rlm.tools import ToolDeclaration
from tests.fakes.attach_servicer import AttachServicer, FakeSandbox, attach_server
from tests.fakes.rlm_events import KeptEvents
from tests.fakes.scripted_llm import ScriptedLlm

ROOT, SUB = "root-model", "sub-model"
KEY = "sk-test-secret"
LEASE = "leases/bench"


class Question(dspy.Signature):
    """Answer the question."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField()


def models(llm: ScriptedLlm, timeout: float = 20.0) -> ModelFactory:
    """Root and Sub on the scripted server, as two models."""
    common: dict[str, Any] = {
        "api_key_env": "KEY",
        "base_url_env": "UNUSED",
        "base_url": llm.base_url,
        "timeout_seconds": timeout,
        "cache": False,
    }
    root, sub = ModelRole(model=ROOT, num_retries=0, **common), ModelRole(model=SUB, num_retries=1, **common)
    return ModelFactory(Llm(root=root, sub=sub), {"KEY": KEY})


class RlmBench:
    """One resident RLM and whatever its last invocation told."""

    def __init__(self, native: NativeRlm, servicer: AttachServicer, llm: ScriptedLlm) -> None:
        self.native = native
        self.servicer = servicer
        self.llm = llm
        self.sink = KeptEvents()
        self.scope: InvocationScope

    @property
    def sandbox(self) -> FakeSandbox:
        """The interpreter's sandbox."""
        return self.servicer.sandboxes[LEASE]

    def open(
        self,
        *,
        gate: BudgetGate | None = None,
        limits: Mapping[Dimension, int] | None = None,
        tools: Mapping[str, Any] | None = None,
        seconds: float = 30.0,
        wrap_up: float = 10.0,
        recursion: bool = False,
        max_iters: int = 6,
    ) -> InvocationScope:
        """Make the scope of the next invocation."""
        now = time.monotonic()
        self.sink = KeptEvents()
        self.scope = InvocationScope(
            sink=self.sink,
            gate=gate or LocalGate(limits or {}),
            tools=tools or {},
            deadline=now + seconds,
            work_deadline=now + seconds - wrap_up,
            recursion=recursion,
            max_iters=max_iters,
        )
        return self.scope

    async def ask(self, question: str = "How many?", **scope: Any) -> RlmOutcome:
        """Run one invocation to its end."""
        try:
            return await self.native.run({"question": question}, self.open(**scope))
        finally:
            self.scope.end()

    def start(self, question: str = "How many?", **scope: Any) -> asyncio.Task[RlmOutcome]:
        """Run one invocation in a task."""
        return asyncio.create_task(self.native.run({"question": question}, self.open(**scope)))


@asynccontextmanager
async def rlm_bench(
    script: Any,
    *,
    signature: type[dspy.Signature] = Question,
    tools: tuple[ToolDeclaration, ...] = (),
    max_iters: int = 6,
    max_llm_calls: int = 8,
    timeout: float = 20.0,
) -> AsyncIterator[RlmBench]:
    """Yield a bench whose model answers by `script`."""
    with ScriptedLlm(script) as llm:
        async with attach_server() as (servicer, stub):
            factory = models(llm, timeout)
            spec = RlmSpec(signature, tools, max_iters, max_llm_calls, 1000, "root", factory.describe())
            limits = InterpreterLimits(execution_timeout_seconds=30, max_output_chars=1000, step_output_bytes=100_000)
            interpreter = BrokerInterpreter(stub, LEASE, 1, asyncio.get_running_loop(), limits)
            native = NativeRlm(spec, interpreter, factory)
            try:
                yield RlmBench(native, servicer, llm)
            finally:
                await native.close()
                await interpreter.aclose()
