from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.gateway.rig import SSE, Gateway, events_of, fields_of, problem_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_turn_from_start_to_end(shared: Gateway) -> None:
    http, session = shared.http, await shared.session()
    made = await http.post(f"/v1/sessions/{session}/turns", json={"text": "What?"})
    turn = made.json()["id"]
    assert (made.status_code, made.headers["Location"]) == (202, f"/v1/turns/{turn}")
    assert made.json()["state"] in {"QUEUED", "PREPARING", "RUNNING", "SETTLING", "COMPLETED"}
    await shared.events(turn)
    ended = await shared.turn(turn)
    assert (ended["state"], ended["answer"], ended["termination"]) == ("COMPLETED", "echo: What?", "submit")
    assert ended["name"] == f"sessions/{session}/turns/{turn}"
    assert ended["outputs"] == {"answer": "echo: What?"}
    assert ended["budget"]["iterations"] == {"used": 1, "limit": 12}
    assert ended["usage"]["models"][0]["prompt_tokens"] == 100
    assert (ended["error"], ended["iterations"]) == (None, 1)
    assert ended["create_time"] <= ended["start_time"] <= ended["end_time"]
    listed = (await http.get(f"/v1/sessions/{session}/turns")).json()
    assert listed == {"turns": [ended], "next_page_token": ""}
    assert (await http.get(f"/v1/sessions/{session}")).json()["checkpoint_version"] == 1


async def test_idempotency_key(shared: Gateway) -> None:
    http, session = shared.http, await shared.session()
    path, key = f"/v1/sessions/{session}/turns", {"Idempotency-Key": "k-1"}
    body = {"text": "wait"}
    first = (await http.post(path, json=body, headers=key)).json()
    again = await http.post(path, json=body, headers=key)
    assert (again.status_code, again.json()["id"]) == (202, first["id"])
    other = await http.post(path, json={"text": "something else"}, headers=key)
    assert fields_of(problem_of(other, 422, "REQUEST_ID_REUSED")) == ["Idempotency-Key"]
    busy = await http.post(path, json=body, headers={"Idempotency-Key": "k-2"})
    assert problem_of(busy, 409, "TURN_IN_PROGRESS")["metadata"]["turn"] == first["name"]
    assert busy.headers["Location"] == f"/v1/turns/{first['id']}"
    problem_of(await http.post(path, json=body), 409, "TURN_IN_PROGRESS")
    problem_of(await http.delete(f"/v1/sessions/{session}"), 409, "TURN_IN_PROGRESS")
    shared.released(first["id"])
    await shared.events(first["id"])
    ended = await http.post(path, json=body, headers=key)
    assert (ended.status_code, ended.json()["state"]) == (202, "COMPLETED")
    async with http.stream("POST", path, json=body, headers={**key, **SSE}) as response:
        replayed = [event["type"] async for event in events_of(response)]
    assert (response.status_code, response.headers["Location"]) == (200, f"/v1/turns/{first['id']}")
    assert replayed == [event["type"] for event in await shared.events(first["id"])]
    fresh = (await http.post(path, json={"text": "no key"})).json()
    assert fresh["request_id"] not in {"", "k-1"}


async def test_equal_requests_at_once_are_one_turn(shared: Gateway) -> None:
    path, key = f"/v1/sessions/{await shared.session()}/turns", {"Idempotency-Key": "same"}
    posts = [shared.http.post(path, json={"text": "hello"}, headers=key) for _ in range(8)]
    answers = await asyncio.gather(*posts)
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1


@pytest.mark.parametrize("key", ["", "a b", "ä".encode().decode("latin-1"), "x" * 129])
async def test_idempotency_keys_that_are_none(shared: Gateway, key: str) -> None:
    path, headers = f"/v1/sessions/{await shared.session()}/turns", {"Idempotency-Key": key.encode("latin-1")}
    response = await shared.http.post(path, json={"text": "x"}, headers=headers)
    assert fields_of(problem_of(response, 422, "INVALID_ARGUMENT")) == ["Idempotency-Key"]


async def test_cancel(shared: Gateway) -> None:
    turn = await shared.start(await shared.session(), "wait")
    cancelled = await shared.http.post(f"/v1/turns/{turn}:cancel")
    assert (cancelled.status_code, cancelled.json()["state"]) == (202, "CANCELLED")
    assert cancelled.json()["error"]["reason"] == "TURN_CANCELLED"
    again = await shared.http.post(f"/v1/turns/{turn}:cancel")
    assert (again.status_code, again.json()) == (202, cancelled.json())
    assert (await shared.events(turn))[-1]["type"] == "turn.cancelled"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["text"]),
        ({"text": ""}, ["text"]),
        ({"text": " \n\t"}, ["text"]),
        ({"text": "x" * 100_001}, ["text"]),
        ({"text": 1}, ["text"]),
        ({"text": "\ud800"}, ["text"]),
        ({"text": "x", "surprise": 1, "other": 2}, ["surprise", "other"]),
        ({"text": "x", "attachments": ["../etc"]}, ["attachments.0"]),
        ({"text": "x", "attachments": ["a", "a"]}, ["attachments"]),
        ({"text": "x", "attachments": [f"a{n}" for n in range(33)]}, ["attachments"]),
        ({"text": "x", "skills": [{"id": "a"}]}, ["skills.0.version"]),
        ({"text": "x", "budget": {"llm_calls": 10_000}}, ["budget.llm_calls"]),
        ({"text": "x", "budget": {"llm_calls": -1}}, ["budget.llm_calls"]),
        ({"text": "x", "budget": {"llm_calls": True}}, ["budget.llm_calls"]),
        ({"text": "x", "budget": {"dollars": 1}}, ["budget.dollars"]),
        ({"text": "x", "timeout_seconds": 0}, ["timeout_seconds"]),
        ({"text": "x", "timeout_seconds": float("nan")}, ["timeout_seconds"]),
        ({"text": "x", "timeout_seconds": float("inf")}, ["timeout_seconds"]),
        ({"text": "x", "on_disconnect": "stop"}, ["on_disconnect"]),
    ],
)
async def test_bad_turns_name_the_field(shared: Gateway, body: dict[str, Any], fields: list[str]) -> None:
    import json

    path = f"/v1/sessions/{await shared.session()}/turns"
    headers = {"Content-Type": "application/json"}
    for accept in ({}, SSE):
        response = await shared.http.post(path, content=json.dumps(body), headers={**headers, **accept})
        assert fields_of(problem_of(response, 422, "INVALID_ARGUMENT")) == fields


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"text": "x", "attachments": ["none"]}, "ATTACHMENT_NOT_FOUND"),
        ({"text": "x", "skills": [{"id": "none", "version": "1"}]}, "SKILL_NOT_FOUND"),
    ],
)
async def test_what_a_turn_names_and_is_not_there(shared: Gateway, body: dict[str, Any], code: str) -> None:
    path = f"/v1/sessions/{await shared.session()}/turns"
    problem_of(await shared.http.post(path, json=body), 404, code)
    problem_of(await shared.http.post(path, json=body, headers=SSE), 404, code)


async def test_largest_text(shared: Gateway) -> None:
    # Characters that JSON writes as two escapes each: the longest body a valid request can have.
    text = "\N{GRINNING FACE}" * 100_000
    turn = await shared.run(text)
    assert (await shared.turn(turn))["text"] == text
