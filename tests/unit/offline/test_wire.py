"""What a Chat Completions request may hold, and how replies are cut and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.offline.completion import CHUNK_CHARACTERS, complete
from services.offline.tokens import count_tokens, cut_to_tokens
from services.offline.wire import MAX_MESSAGES, ChatRequest, Message, find_problem, read_request

GOOD: dict[str, Any] = {"model": "fleet-offline", "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.parametrize(
    ("change", "status", "param", "code"),
    [
        ({"model": None}, 400, "model", "missing_model"),
        ({"model": "  "}, 400, "model", "missing_model"),
        ({"model": "gpt-5"}, 404, "model", "model_not_found"),
        ({"messages": None}, 400, "messages", "empty_messages"),
        ({"messages": []}, 400, "messages", "empty_messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, 400, "messages", "empty_messages"),
        ({"messages": ["hello"]}, 400, "messages[0]", "invalid_value"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 400, "messages[0].role", "invalid_role"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, 400, "messages[0].role", "invalid_role"),
        ({"messages": [{"role": "user", "content": 5}]}, 400, "messages[0].content", "invalid_value"),
        ({"messages": [{"role": "user", "content": []}]}, 400, "messages[0].content", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            400,
            "messages[0].content[0]",
            "unsupported_value",
        ),
        ({"messages": GOOD["messages"] * (MAX_MESSAGES + 1)}, 400, "messages", "invalid_value"),
        ({"messages": [{"role": "user", "content": "x" * 2_000_001}]}, 400, "messages", "context_length_exceeded"),
        ({"stream": "yes"}, 400, "stream", "invalid_value"),
        ({"stream_options": True}, 400, "stream_options", "invalid_value"),
        ({"max_tokens": 0}, 400, "max_tokens", "invalid_value"),
        ({"max_tokens": True}, 400, "max_tokens", "invalid_value"),
        ({"max_completion_tokens": 1.5}, 400, "max_completion_tokens", "invalid_value"),
        ({"stop": ["a"] * 5}, 400, "stop", "invalid_value"),
        ({"stop": ""}, 400, "stop", "invalid_value"),
        ({"n": 2}, 400, "n", "unsupported_value"),
        ({"tools": [{}]}, 400, "tools", "unsupported_value"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format", "unsupported_value"),
    ],
)
def test_refusals_name_the_field(change: dict[str, Any], status: int, param: str, code: str) -> None:
    problem = find_problem(GOOD | change)
    assert problem is not None
    assert (problem.status, problem.param, problem.code) == (status, param, code)
    error = problem.body()["error"]
    assert isinstance(error, dict)
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"


def test_what_is_no_object() -> None:
    problem = find_problem([1])
    assert problem is not None
    assert problem.param is None


def test_what_clients_send_besides_is_accepted() -> None:
    body = GOOD | {
        "temperature": 0.3,
        "top_p": 1,
        "seed": 4,
        "user": "u",
        "n": 1,
        "max_tokens": None,
        "max_completion_tokens": 50,
        "stop": "END",
        "stream": True,
        "stream_options": {"include_usage": True},
        "response_format": {"type": "text"},
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": None},
            {"role": "user", "content": "c"},
        ],
    }
    assert find_problem(body) is None
    read = read_request(body)
    assert read.messages[0] == Message("developer", "a\nb")
    assert read.messages[1] == Message("assistant", "")
    assert (read.max_tokens, read.stop, read.stream, read.include_usage) == (50, ("END",), True, True)


def request(**changes: Any) -> ChatRequest:
    values = {
        "messages": (Message("user", "hi"),),
        "stream": False,
        "include_usage": False,
        "max_tokens": None,
        "stop": (),
    }
    return ChatRequest(**{**values, **changes})


def test_usage_is_counted_from_the_real_texts() -> None:
    done = complete(request(messages=(Message("user", "a" * 40), Message("system", "é" * 4))), "b" * 9, 5)
    assert done.usage == {"prompt_tokens": 10 + 2 + 8, "completion_tokens": 3, "total_tokens": 23}
    assert done.finish_reason == "stop"


def test_a_reply_longer_than_allowed_is_cut_and_says_so() -> None:
    done = complete(request(max_tokens=2), "0123456789", 5)
    assert (done.text, done.finish_reason) == ("01234567", "length")
    assert done.usage["completion_tokens"] == 2
    assert complete(request(stop=("3", "9")), "0123456789", 5).text == "012"


def test_the_same_request_gets_the_same_id() -> None:
    assert complete(request(), "x", 1).id == complete(request(), "x", 2).id
    assert complete(request(), "x", 1).id != complete(request(), "y", 1).id


@given(st.text(max_size=900), st.booleans())
def test_chunks_join_to_the_reply(text: str, usage: bool) -> None:
    done = complete(request(), text, 1)
    events = [
        line.removeprefix(b"data: ") for line in b"".join(done.chunks(include_usage=usage)).split(b"\n\n") if line
    ]
    assert events.pop() == b"[DONE]"
    chunks = [json.loads(event) for event in events]
    if usage:
        last = chunks.pop()
        assert (last["choices"], last["usage"]) == ([], done.usage)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == text
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] == "stop"
    assert len(chunks) == 2 + -(-len(text) // CHUNK_CHARACTERS)


@given(st.text(), st.integers(0, 50))
def test_cutting_never_passes_the_limit(text: str, limit: int) -> None:
    cut = cut_to_tokens(text, limit)
    assert text.startswith(cut)
    assert count_tokens(cut) <= limit
