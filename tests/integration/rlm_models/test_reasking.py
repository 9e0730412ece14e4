"""The adapter against real replies: what is asked again, how often, with which words."""

from __future__ import annotations

import time

import dspy
import pytest

from services.rlm.events import LmCalled, LmCompleted
from services.rlm.failures import to_fleet_error
from tests.fakes.rlm_models import ROOT, model_bench
from tests.fakes.scripted_llm import Reply, action, fields

pytestmark = pytest.mark.usefixtures("warm_llm")

SECRET = "the bad reply's own words"


def _action_predictor() -> dspy.Predict:
    return dspy.RLM("question -> answer").generate_action


async def _act() -> dspy.Prediction:
    history = dspy.primitives.repl_types.REPLHistory()
    return await _action_predictor().acall(variables_info=["none"], repl_history=history, iteration="1/3")


BAD = {
    "empty": "",
    "null": Reply(None),
    "blank": "  \n ",
    "prose": SECRET,
    "only reasoning": fields(reasoning=SECRET),
    "wrong field": fields(reasoning="r", kode="print(1)"),
    "code null": '{"reasoning": "r", "code": null}',
    "half a JSON": '{"reasoning": "r", "code": "pri',
    "blank code": fields(reasoning="r", code="```python\n\n```"),
    "cut off": Reply(action("delete_old()"), finish_reason="length"),
    "not closed": "[[ ## reasoning ## ]]\nr\n\n[[ ## code ## ]]\n```python\ndelete_old()\n",
    "not Python": fields(reasoning="r", code="```json\n{}\n```"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_a_bad_reply_is_asked_again_without_being_repeated(bad: Reply | str) -> None:
    with model_bench([bad, action("print(2)")]) as bench, dspy.context(**bench.models.settings()):
        assert (await _act()).code == "print(2)"
        first, second = bench.llm.requests
        assert "Your last reply to this could not be used" in second.prompt
        assert "Your last reply" not in first.prompt
        assert SECRET not in second.prompt
        assert [event.purpose for event in bench.sink.of(LmCalled)] == ["action", "re-ask 1"]
        assert [event.prompt_tokens for event in bench.sink.of(LmCompleted)] == [11, 11]
        assert bench.scope.usage()[0].calls == 2


async def test_the_first_error_stands_after_two_more_bad_replies() -> None:
    with model_bench([SECRET, "", SECRET, action("print(1)")]) as bench, dspy.context(**bench.models.settings()):
        with pytest.raises(dspy.AdapterParseError) as failed:
            await _act()
        assert len(bench.llm.requests) == 3
        assert "no field" in str(failed.value)
        assert SECRET not in str(failed.value)
        error = to_fleet_error(failed.value)
        assert error.reason == "MODEL_OUTPUT_INVALID"
        assert SECRET not in error.message


async def test_the_blocking_call_asks_again_too() -> None:
    with model_bench(["", action("print(1)")]) as bench, dspy.context(**bench.models.settings()):
        history = dspy.primitives.repl_types.REPLHistory()
        assert _action_predictor()(variables_info=["none"], repl_history=history, iteration="1/3").code == "print(1)"
        assert len(bench.llm.requests) == 2


async def test_a_json_object_is_read_without_another_call() -> None:
    reply = '```json\n{"reasoning": "r", "code": "x = \'```\'\nprint(x)"}\n```'
    with model_bench([reply]) as bench, dspy.context(**bench.models.settings()):
        assert (await _act()).code == "x = '``' '`'\nprint(x)"


async def test_typed_fields_are_asked_again_when_they_do_not_fit() -> None:
    replies = [fields(count="many", names='["a"]'), fields(count="3", names='["a", "b"]')]
    with model_bench(replies) as bench, dspy.context(**bench.models.settings()):
        answer = await dspy.Predict("question -> count: int, names: list[str]").acall(question="?")
        assert (answer.count, answer.names) == (3, ["a", "b"])
        assert "count can't be read as its type" in bench.llm.requests[1].prompt


@pytest.mark.parametrize("bad", [Reply("busy", status=503), Reply(close=True)], ids=["HTTP 503", "hang-up"])
async def test_a_failing_provider_is_asked_again_with_the_same_prompt(bad: Reply) -> None:
    with model_bench([bad, action("print(1)")]) as bench, dspy.context(**bench.models.settings()):
        await _act()
        first, second = bench.llm.requests
        assert first.body["messages"] == second.body["messages"]


async def test_a_slow_provider_is_given_up_and_asked_again() -> None:
    replies = [Reply("late", delay=20), action("print(1)")]
    with model_bench(replies, "llm.root.timeout_seconds=0.3") as bench, dspy.context(**bench.models.settings()):
        await _act()
        assert bench.llm.requests[0].aborted.is_set()
        assert [event.error for event in bench.sink.of(LmCompleted)][1:] == [""]


async def test_a_slow_provider_fails_in_the_end() -> None:
    with model_bench(lambda request: Reply("late", delay=20), "llm.root.timeout_seconds=0.2") as bench:
        with dspy.context(**bench.models.settings()), pytest.raises(dspy.LMTimeoutError) as failed:
            await _act()
        assert len(bench.llm.requests) == 3
        error = to_fleet_error(failed.value)
        assert (error.reason, error.message) == (
            "MODEL_UNAVAILABLE", "The Root model's provider did not answer in time.",
        )  # fmt: skip


async def test_a_rate_limit_is_waited_for_as_asked() -> None:
    limited = Reply("slow down", status=429, headers={"Retry-After": "0.4"})
    with model_bench([limited, action("print(1)")]) as bench, dspy.context(**bench.models.settings()):
        began = time.monotonic()
        await _act()
        assert time.monotonic() - began >= 0.4


async def test_a_rate_limit_beyond_the_deadline_fails_at_once() -> None:
    limited = Reply("slow down", status=429, headers={"Retry-After": "120"})
    with model_bench([limited, action("print(1)")]) as bench, dspy.context(**bench.models.settings()):
        with pytest.raises(dspy.LMRateLimitError) as failed:
            await _act()
        assert len(bench.llm.requests) == 1
        error = to_fleet_error(failed.value)
        assert (error.reason, error.retry_after) == ("MODEL_RATE_LIMITED", 120.0)


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [
        (401, "no", "MODEL_UNAUTHENTICATED"),
        (401, "connection timeout", "MODEL_UNAUTHENTICATED"),
        (403, "no", "MODEL_UNAUTHENTICATED"),
        (400, "no", "MODEL_REQUEST_REJECTED"),
        (402, "no", "MODEL_REQUEST_REJECTED"),
        (404, "no", "MODEL_REQUEST_REJECTED"),
        (422, "no", "MODEL_REQUEST_REJECTED"),
        (400, "This model's maximum context length is 8192 tokens", "MODEL_CONTEXT_EXCEEDED"),
    ],
)
async def test_what_can_not_pass_is_not_asked_again(status: int, text: str, reason: str) -> None:
    with model_bench(lambda request: Reply(text, status=status)) as bench, dspy.context(**bench.models.settings()):
        with pytest.raises(dspy.LMError) as failed:
            await _act()
        assert len(bench.llm.requests) == 1
        assert to_fleet_error(failed.value).reason == reason


async def test_surrogates_and_long_history_do_not_break_the_next_prompt() -> None:
    history = dspy.primitives.repl_types.REPLHistory().append(
        reasoning="r" * 100_000, code="x = '" + "y" * 300_000 + "'", output="a\ud800b"
    )
    with model_bench([action("print(1)")]) as bench, dspy.context(**bench.models.settings()):
        await _action_predictor().acall(variables_info=["none"], repl_history=history, iteration="2/3")
        [request] = bench.llm.requests
        assert len(request.prompt) < 60_000
        assert "characters omitted" in request.prompt
        assert request.model == ROOT
