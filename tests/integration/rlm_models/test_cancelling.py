"""Cancelling closes the provider's connections at once, DSPy's own pool of threads included."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import dspy
import pytest

from services.common.errors import FleetError
from services.rlm.events import LmCompleted
from services.rlm.models.provider_line import LineCut
from tests.fakes.rlm_models import ROOT, SUB, model_bench, query_tools
from tests.fakes.scripted_llm import Reply

pytestmark = pytest.mark.usefixtures("warm_llm")

SLOW = Reply("too late", delay=30)


class _Ask(dspy.Signature):
    question: str = dspy.InputField()
    answer: str = dspy.OutputField()


async def _batch(models: Any, count: int) -> list[str]:
    with dspy.context(**models.settings()):
        tools = query_tools(models.sub)
        return await asyncio.to_thread(tools["llm_query_batched"], [f"prompt {index}" for index in range(count)])


async def test_a_batch_of_slow_replies_ends_at_once_and_sends_nothing_more() -> None:
    with model_bench(lambda request: SLOW) as bench:
        batch = asyncio.create_task(_batch(bench.models, 20))
        under_way = await asyncio.to_thread(bench.llm.wait_for, 8)
        began = time.monotonic()
        bench.scope.cancel()
        for request in under_way:
            assert await asyncio.to_thread(request.aborted.wait, 1.0)
        closed = time.monotonic() - began
        results = await asyncio.wait_for(batch, 5)
        assert closed < 1.0
        assert time.monotonic() - began < 2.0
        assert len(results) == 20
        assert all(result.startswith("[ERROR]") for result in results)
        assert len(bench.llm.requests) == 8
        [use] = bench.scope.usage()
        assert (use.role, use.model, use.calls) == ("sub", SUB, 8)
        assert {event.error for event in bench.sink.of(LmCompleted)} == {"cancelled"}


async def test_no_request_is_sent_after_the_invocation() -> None:
    with model_bench(lambda request: "late") as bench:
        bench.models.close()
        with pytest.raises(dspy.LMError):
            bench.models.sub("hello?")
        assert bench.llm.requests == []
        assert bench.scope.usage() == []


async def test_cancelling_the_task_of_a_root_call_closes_its_connection() -> None:
    with model_bench(lambda request: SLOW) as bench, dspy.context(**bench.models.settings()):
        call = asyncio.create_task(dspy.Predict(_Ask).acall(question="?"))
        [request] = await asyncio.to_thread(bench.llm.wait_for, 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 1)
        assert await asyncio.to_thread(request.aborted.wait, 1.0)
        [use] = bench.scope.usage()
        assert (use.model, use.calls) == (ROOT, 1)


async def test_a_root_call_after_a_dropped_one_works() -> None:
    """By clock, a running call is cancelled and the answer is then asked for over the same line."""
    replies = iter([SLOW, "[[ ## answer ## ]]\nfine\n\n[[ ## completed ## ]]"])
    with model_bench(lambda request: next(replies)) as bench, dspy.context(**bench.models.settings()):
        call = asyncio.create_task(dspy.Predict(_Ask).acall(question="?"))
        await asyncio.to_thread(bench.llm.wait_for, 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await dspy.Predict(_Ask).acall(question="?")).answer == "fine"


async def test_cancelling_the_scope_ends_a_root_call_without_asking_again() -> None:
    with model_bench(lambda request: SLOW) as bench, dspy.context(**bench.models.settings()):
        call = asyncio.create_task(dspy.Predict(_Ask).acall(question="?"))
        await asyncio.to_thread(bench.llm.wait_for, 1)
        bench.scope.cancel(FleetError("TURN_CANCELLED", "Enough."))
        with pytest.raises(FleetError, match="Enough"):
            await asyncio.wait_for(call, 1)
        assert len(bench.llm.requests) == 1


async def test_a_pause_before_another_try_ends_with_the_invocation() -> None:
    busy = Reply("busy", status=503, headers={"Retry-After": "20"})
    with model_bench(lambda request: busy) as bench:
        batch = asyncio.create_task(_batch(bench.models, 1))
        await asyncio.to_thread(bench.llm.wait_for, 1)
        bench.scope.cancel()
        assert (await asyncio.wait_for(batch, 2))[0].startswith("[ERROR]")
        assert len(bench.llm.requests) == 1


async def test_a_line_without_time_sends_nothing() -> None:
    with model_bench(lambda request: "late", seconds=-1.0) as bench:
        with pytest.raises(dspy.LMError) as failed:
            bench.models.sub("hello?")
        cause: BaseException | None = failed.value
        while cause is not None and not isinstance(cause, LineCut):
            cause = cause.__cause__ or cause.__context__
        assert cause is not None
        assert bench.llm.requests == []
