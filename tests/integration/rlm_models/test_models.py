"""Stock models over HTTP: what is sent, counted, retried, and what errors may say."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

import dspy
import pytest

from services.rlm.events import LmCalled, LmCompleted
from services.rlm.failures import to_fleet_error
from services.rlm.models.factory import ModelFactory, model_name
from services.rlm.models.usage import ModelUse
from tests.fakes.rlm_models import ENV, KEY, ROOT, SUB, llm_policy, model_bench, query_tools
from tests.fakes.scripted_llm import Reply

pytestmark = pytest.mark.usefixtures("warm_llm")


def test_a_bare_model_id_is_sent_as_it_is() -> None:
    assert model_name("databricks-x") == "openai/databricks-x"
    assert model_name("org/model") == "openai/org/model"
    assert model_name("openai/gpt-x") == "openai/gpt-x"


async def test_stock_models_with_the_settings_of_the_policy() -> None:
    overrides = ("llm.root.temperature=0.25", "llm.root.max_tokens=77", "llm.sub.reasoning_effort=low")
    with model_bench(lambda request: "hi", *overrides) as bench:
        root, sub = bench.models.root, bench.models.sub
        assert type(root) is type(sub) is dspy.LM
        assert (root.cache, root.num_retries, root.kwargs["timeout"]) == (False, 0, 300.0)
        with dspy.context(**bench.models.settings()):
            root("one")
            sub("two")
        one, two = bench.llm.requests
        assert (one.model, one.body["temperature"], one.body["max_tokens"]) == (ROOT, 0.25, 77)
        assert one.headers["authorization"] == f"Bearer {KEY}"
        assert (two.model, two.body["reasoning_effort"]) == (SUB, "low")
        assert root.history == []


async def test_usage_and_events_of_a_batch_in_threads() -> None:
    with model_bench(lambda request: f"re: {request.prompt}") as bench, dspy.context(**bench.models.settings()):
        results = await asyncio.to_thread(query_tools(bench.models.sub)["llm_query_batched"], list("abcdefghijkl"))
        assert results == [f"re: {letter}" for letter in "abcdefghijkl"]
        assert bench.scope.usage() == [ModelUse("sub", SUB, 12, 12 * 11, 12 * 7)]
        called, completed = bench.sink.of(LmCalled), bench.sink.of(LmCompleted)
        assert {event.call_id for event in called} == {event.call_id for event in completed}
        assert {(event.role, event.model, event.purpose) for event in called} == {("sub", SUB, "llm_query")}


async def test_cost_is_told_where_the_price_is_known() -> None:
    with model_bench(lambda request: "hi", "llm.root.model=gpt-4o-mini") as bench:
        with dspy.context(**bench.models.settings()):
            bench.models.root("one")
            bench.models.sub("two")
        root, sub = bench.scope.usage()
        assert root.cost_usd is not None
        assert 0 < root.cost_usd < 0.01
        assert sub.cost_usd is None


async def test_prompts_that_have_no_utf8_form_fail_alone_in_a_batch() -> None:
    with model_bench(lambda request: "fine") as bench, dspy.context(**bench.models.settings()):
        results = query_tools(bench.models.sub)["llm_query_batched"](["a", "b\ud800", "c"])
        assert (results[0], results[2]) == ("fine", "fine")


async def test_a_child_is_counted_as_one() -> None:
    with model_bench(lambda request: "hi") as bench, bench.factory.open(bench.scope, "child") as models:
        with dspy.context(**models.settings()):
            models.root("one")
        assert [(use.role, use.model) for use in bench.scope.usage()] == [("child", ROOT)]


async def test_one_reply_without_text_does_not_void_its_batch() -> None:
    def script(request: Any) -> Reply | str:
        return Reply(None) if "filtered" in request.prompt else "fine"

    with model_bench(script) as bench, dspy.context(**bench.models.settings()):
        prompts = ["a", "filtered", "b"]
        results = await asyncio.to_thread(query_tools(bench.models.sub)["llm_query_batched"], prompts)
        assert results[0] == results[2] == "fine"
        assert results[1].startswith("[ERROR]")
        assert bench.scope.usage()[0].prompt_tokens == 33


@pytest.mark.parametrize(("status", "calls"), [(401, 1), (400, 1), (404, 1), (429, 2), (500, 2), (503, 2)])
async def test_a_sub_call_is_sent_again_once_when_that_may_help(status: int, calls: int) -> None:
    reply = Reply("no", status=status, headers={"Retry-After": "0"})
    with model_bench(lambda request: reply) as bench, dspy.context(**bench.models.settings()):
        with pytest.raises(dspy.LMError):
            bench.models.sub("hello")
        assert len(bench.llm.requests) == calls


async def test_a_sub_call_succeeds_after_a_failure_in_passing() -> None:
    with model_bench([Reply(close=True), "fine"]) as bench, dspy.context(**bench.models.settings()):
        assert bench.models.sub("hello").text == "fine"


async def test_a_request_takes_no_longer_than_the_invocation_has_left() -> None:
    with model_bench(lambda request: Reply("late", delay=20), seconds=0.5) as bench:
        began = time.monotonic()
        with pytest.raises(dspy.LMError):
            bench.models.sub("hello")
        assert time.monotonic() - began < 2


ECHO = f"Incorrect API key provided: {KEY}. Send Bearer {KEY} to https://user:pw@host.example/v1?key={KEY}"


async def test_an_echoed_key_goes_nowhere() -> None:
    with model_bench(lambda request: Reply(ECHO, status=401)) as bench, dspy.context(**bench.models.settings()):
        [shown] = query_tools(bench.models.sub)["llm_query_batched"](["hello"])
        with pytest.raises(dspy.LMAuthError) as failed:
            bench.models.root("hello")
        error = to_fleet_error(failed.value)
        assert error.message == "The Root model's provider refused the server's credential (HTTP 401)."
        told = [shown, str(failed.value), repr(failed.value), str(error), repr(bench.sink.events)]
        assert [text for text in told if KEY in text or "host.example" in text] == []
        assert {event.error for event in bench.sink.of(LmCompleted)} == {"credential refused (HTTP 401)"}


async def test_a_refused_connection_is_named() -> None:
    with model_bench([]) as bench:
        url = bench.llm.base_url
    factory = ModelFactory(llm_policy(url), ENV)
    with factory.open(bench.scope) as models, pytest.raises(dspy.LMError) as failed:
        models.root("hello")
    error = to_fleet_error(failed.value)
    assert error.reason == "MODEL_UNAVAILABLE"
    assert error.message == "The Root model's provider could not be reached: connection refused."


async def test_connections_are_reused_within_an_invocation() -> None:
    with model_bench(lambda request: "hi") as bench, dspy.context(**bench.models.settings()):
        for _ in range(5):
            bench.models.root("hello")
        assert len({request.client_port for request in bench.llm.requests}) == 1


def test_the_description_holds_no_secret() -> None:
    policy = llm_policy("https://host.example/v1?key=hidden")
    described = ModelFactory(policy, ENV).describe()
    assert described["root"]["model"] == ROOT  # type: ignore[index,call-overload]
    assert "hidden" not in repr(described)
    assert KEY not in repr(described)


@pytest.mark.timeout(120)
def test_warming_up_needs_no_provider_and_pays_the_first_use() -> None:
    """In a process of its own: the first call after it takes no seconds, and no address was looked up."""
    program = """
import socket, time
def refused(*args, **kwargs): raise AssertionError("the network was used")
socket.getaddrinfo = refused
from tests.fakes.rlm_models import ENV, llm_policy
from services.rlm.models.factory import ModelFactory
ModelFactory(llm_policy("http://nowhere.invalid/v1"), ENV).warm_up()
import dspy
print(dspy.__version__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=110, check=False)
    assert done.stderr == ""
    assert done.stdout == "3.3.1\n"
