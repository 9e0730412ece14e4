"""Models against a scripted provider, within a scope whose events are kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dspy

from config.llm import Llm
from config.loader import load
from services.rlm.budget.gate import LocalGate
from services.rlm.invocation.scope import InvocationScope, enter_scope
from services.rlm.models.factory import ModelFactory, RlmModels
from tests.fakes.rlm_events import KeptEvents
from tests.fakes.scripted_llm import Script, ScriptedLlm

ROOT, SUB = "root-model", "sub-model"
KEY = "sk-unit-0123456789abcdef"
ENV = {"TEST_LLM_KEY": KEY}


@dataclass
class ModelBench:
    """What a test of models needs."""

    llm: ScriptedLlm
    factory: ModelFactory
    scope: InvocationScope
    sink: KeptEvents
    models: RlmModels


def llm_policy(base_url: str, *overrides: str) -> Llm:
    """The policy's model roles, both at `base_url`."""
    roles = [
        f"llm.{role}.{key}={value}"
        for role, model in (("root", ROOT), ("sub", SUB))
        for key, value in (("model", model), ("base_url", base_url), ("api_key_env", "TEST_LLM_KEY"))
    ]
    return load("local-provider", overrides=[*roles, *overrides], env=ENV, components=()).llm


@contextmanager
def model_bench(script: Script | Mapping[str, Script], *overrides: str, seconds: float = 60.0) -> Iterator[ModelBench]:
    """Open models in a scope of `seconds`; call it where an event loop runs."""
    with ScriptedLlm(script) as llm:
        factory = ModelFactory(llm_policy(llm.base_url, *overrides), ENV)
        sink = KeptEvents()
        scope = InvocationScope(
            sink=sink,
            gate=LocalGate({}),
            tools={},
            deadline=time.monotonic() + seconds,
            work_deadline=time.monotonic() + seconds,
            recursion=False,
            max_iters=5,
        )
        enter_scope(scope)
        with factory.open(scope) as models:
            yield ModelBench(llm, factory, scope, sink, models)


def query_tools(sub: dspy.LM) -> dict[str, Any]:
    """DSPy's own `llm_query` and `llm_query_batched` over `sub`."""
    return dspy.RLM("question -> answer", sub_lm=sub, max_llm_calls=1_000)._make_llm_tools()
