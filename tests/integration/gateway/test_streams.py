"""Event streams: framing, resuming, silence, and clients that leave or don't read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from tests.integration.gateway.rig import SSE, Gateway, events_of, fields_of, frames_of, problem_of, running, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_frames(shared: Gateway) -> None:
    path = f"/v1/sessions/{await shared.session()}/turns"
    text = "line one\nline two\r\n\u2028\u2029\x85data: x\n\nevent: fake\nid: 99"
    async with shared.http.stream("POST", path, json={"text": text}, headers=SSE) as response:
        frames = [frame async for frame in frames_of(response)]
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-cache, no-transform"
    assert response.headers["X-Accel-Buffering"] == "no"
    assert all(set(frame) == {"event", "id", "data"} for frame in frames)
    events = [json.loads(frame["data"]) for frame in frames]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert [frame["event"] for frame in frames] == [event["type"] for event in events]
    assert (events[0]["type"], events[-2]["type"], events[-1]["type"]) == ("turn.started", "answer", "turn.completed")
    assert events[-2]["text"] == f"echo: {text}"
    turn = events[0]["turn"].rpartition("/")[2]
    assert response.headers["Location"] == f"/v1/turns/{turn}"
    stored = await shared.http.get(f"/v1/turns/{turn}/events", params={"stream": "false"})
    assert (stored.headers["Content-Type"], stored.json()) == ("application/json", events)


async def test_resuming_at_every_event(shared: Gateway) -> None:
    turn = await shared.run()
    path = f"/v1/turns/{turn}/events"
    events = await shared.events(turn)
    for seen in range(len(events)):
        for options in ({"headers": {"Last-Event-ID": str(seen)}}, {"params": {"after": seen}}):
            response = await shared.http.get(path, **options)
            assert [event async for event in events_of(response)] == events[seen:]
    snapshot = await shared.http.get(path, params={"stream": "false", "after": len(events)})
    assert (snapshot.status_code, snapshot.json()) == (200, [])
    both = await shared.http.get(path, headers={"Last-Event-ID": "2"}, params={"after": 1})
    assert [event async for event in events_of(both)] == events[2:]


async def test_where_a_stream_cannot_begin(shared: Gateway) -> None:
    turn = await shared.run()
    path = f"/v1/turns/{turn}/events"
    last = len(await shared.events(turn))
    done = await shared.http.get(path, headers={"Last-Event-ID": str(last)})
    assert (done.status_code, done.content) == (204, b"")
    for beyond in (last + 1, 2**63 - 1):
        problem_of(await shared.http.get(path, params={"after": beyond}), 416, "SEQUENCE_OUT_OF_RANGE")
    for garbage in ("x", "", "-1", "1.5", str(2**63), "9" * 5000, "\N{SUPERSCRIPT TWO}"):
        response = await shared.http.get(path, headers={"Last-Event-ID": garbage.encode()})
        assert fields_of(problem_of(response, 422, "INVALID_ARGUMENT")) == ["Last-Event-ID"]
    for after in ("x", "-1", str(2**63)):
        response = await shared.http.get(path, params={"after": after})
        assert fields_of(problem_of(response, 422, "INVALID_ARGUMENT")) == ["after"]


async def test_silence_is_commented(tmp_path: Path) -> None:
    async with running(tmp_path, silence=0.1) as gateway:
        turn = await gateway.start(await gateway.session(), "wait")
        comments, kinds = 0, []
        async with gateway.http.stream("GET", f"/v1/turns/{turn}/events") as response:
            async for frame in frames_of(response):
                comments += "" in frame
                kinds += [frame["event"]] if "event" in frame else []
                if comments == 3:
                    gateway.released(turn)
        assert kinds[-1] == "turn.completed"


async def test_attaching_to_a_silent_turn_answers_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, silence=0.2) as gateway:
        turn = await gateway.start(await gateway.session(), "wait")
        async with gateway.http.stream("GET", f"/v1/turns/{turn}/events") as response:
            async for event in events_of(response):
                if event.get("phase") == "RUNNING":
                    break
        async with asyncio.timeout(5):
            async with gateway.http.stream(
                "GET", f"/v1/turns/{turn}/events", params={"after": event["sequence"]}
            ) as response:
                assert response.status_code == 200
                assert "" in await anext(frames_of(response))


async def test_leaving_clients_free_everything(tmp_path: Path) -> None:
    async with running(tmp_path, silence=0.1) as gateway:
        turn = await gateway.start(await gateway.session(), "wait")
        running_before = await _settled()
        async with httpx.AsyncClient(base_url=gateway.url) as leaving:
            for _ in range(10):
                async with leaving.stream("GET", f"/v1/turns/{turn}/events") as response:
                    await anext(frames_of(response))
            await asyncio.gather(*(_begin_and_leave(gateway, turn) for _ in range(10)))
        await until(lambda: len(asyncio.all_tasks()) <= running_before)
        assert (await gateway.turn(turn))["state"] == "RUNNING"
        metrics = (await gateway.http.get("/metrics")).text
        assert "gateway_event_streams 0.0" in metrics
        gateway.released(turn)
        assert (await gateway.events(turn))[-1]["type"] == "turn.completed"


async def _begin_and_leave(gateway: Gateway, turn: str) -> None:
    """Break the connection off before the answer begins."""
    async with gateway.socket() as (_, writer):
        writer.write(gateway.head("GET", f"/v1/turns/{turn}/events?after=3"))
        await writer.drain()


async def _settled() -> int:
    """The number of tasks once it no longer changes."""
    count, same = 0, 0
    while same < 5:
        await asyncio.sleep(0.02)
        before, count = count, len(asyncio.all_tasks())
        same = same + 1 if count == before else 0
    return count


@pytest.mark.parametrize(("choice", "state"), [("cancel", "CANCELLED"), ("continue", "RUNNING")])
async def test_what_leaving_does_to_the_turn(shared: Gateway, choice: str, state: str) -> None:
    path = f"/v1/sessions/{await shared.session()}/turns"
    body = {"text": "wait", "on_disconnect": choice}
    async with shared.http.stream("POST", path, json=body, headers=SSE) as response:
        turn = response.headers["Location"].rpartition("/")[2]
        async for event in events_of(response):
            if event.get("phase") == "RUNNING":
                break
    engine = shared.replica.engine
    if choice == "cancel":
        await until(lambda: engine.runs[turn].stopped.is_set())
        assert (await shared.events(turn))[-1]["type"] == "turn.cancelled"
    assert (await shared.turn(turn))["state"] == state


async def test_slow_reader_holds_nobody_up(shared: Gateway) -> None:
    turn = await shared.run("many 5000")
    async with shared.socket() as (reader, writer):
        writer.write(shared.head("GET", f"/v1/turns/{turn}/events"))
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        assert len(await shared.events(turn)) > 5_000
        # The other reader has all of it, and this one's stream waits for it to read on.
        assert "gateway_event_streams 1.0" in (await shared.http.get("/metrics")).text
        received = b""
        count = 0
        async with asyncio.timeout(20):
            while b"event: turn.completed" not in received:
                received = received[-100:] + await reader.read(2**20)
                count += received[100:].count(b"\nevent: output")
        assert count > 4_900


async def test_many_streams_of_one_turn(shared: Gateway) -> None:
    turn = await shared.start(await shared.session(), "wait")
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=shared.url, limits=limits, timeout=20) as http:

        async def follow() -> list[int]:
            async with http.stream("GET", f"/v1/turns/{turn}/events") as response:
                return [event["sequence"] async for event in events_of(response)]

        followers = [asyncio.create_task(follow()) for _ in range(120)]
        await until(lambda: turn in shared.replica.engine.runs)
        shared.released(turn)
        seen = await asyncio.gather(*followers)
    assert {tuple(sequences) for sequences in seen} == {tuple(range(1, len(seen[0]) + 1))}


async def test_head_of_a_stream(shared: Gateway) -> None:
    turn = await shared.start(await shared.session(), "wait")
    before = await _settled()
    async with asyncio.timeout(5):
        head = await shared.http.head(f"/v1/turns/{turn}/events")
    assert (head.status_code, head.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_ui_messages(shared: Gateway) -> None:
    path = f"/v1/sessions/{await shared.session()}/turns"
    live = await shared.http.post(path, params={"format": "ui-message"}, json={"text": "hello"})
    assert live.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert live.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    turn = live.headers["Location"].rpartition("/")[2]
    frames = [frame["data"] async for frame in frames_of(live)]
    assert frames[-1] == "[DONE]"
    parts = [json.loads(frame) for frame in frames[:-1]]
    assert (parts[0]["type"], parts[0]["messageId"], parts[-1]["type"]) == ("start", turn, "finish")
    assert next(part["delta"] for part in parts if part["type"] == "text-delta") == "echo: hello"
    again = await shared.http.get(f"/v1/turns/{turn}/events", params={"format": "ui-message"})
    assert [frame["data"] async for frame in frames_of(again)] == frames
    for options in ({"after": 1}, {"stream": "false"}, {"format": "other"}):
        wrong = await shared.http.get(f"/v1/turns/{turn}/events", params={"format": "ui-message", **options})
        assert fields_of(problem_of(wrong, 422, "INVALID_ARGUMENT")) == ["format"]
    refused = await shared.http.post(path, params={"format": "ui-message"}, json={"text": ""})
    problem_of(refused, 422, "INVALID_ARGUMENT")
