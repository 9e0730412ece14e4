"""Turns that wait for a place: what their clients get, and what leaving does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.gateway.rig import SSE, Gateway, events_of, problem_of, running, until

ONE = "runtime.max_concurrent_turns=1"


async def _occupied(gateway: Gateway) -> str:
    turn = await gateway.start(await gateway.session(), "wait")
    await until(lambda: turn in gateway.replica.engine.runs)
    return turn


async def test_waiting_too_long_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, ONE, "runtime.queue_seconds=0.2") as gateway:
        await _occupied(gateway)
        path = f"/v1/sessions/{await gateway.session()}/turns"
        for headers in ({}, SSE):
            response = await gateway.http.post(path, json={"text": "x"}, headers=headers)
            problem_of(response, 429, "CAPACITY_EXHAUSTED")
            assert int(response.headers["Retry-After"]) >= 1


async def test_place_that_becomes_free(tmp_path: Path) -> None:
    async with running(tmp_path, ONE, "runtime.queue_seconds=20") as gateway:
        first = await _occupied(gateway)
        path = f"/v1/sessions/{await gateway.session()}/turns"
        tasks = len(asyncio.all_tasks())

        async def post() -> str:
            async with gateway.http.stream("POST", path, json={"text": "x"}, headers=SSE) as response:
                return [event["type"] async for event in events_of(response)][-1]

        waiting = asyncio.create_task(post())
        await until(lambda: len(asyncio.all_tasks()) > tasks + 2)
        gateway.released(first)
        assert await waiting == "turn.completed"


async def test_leaving_the_queue_frees_everything(tmp_path: Path) -> None:
    async with running(tmp_path, ONE, "runtime.queue_seconds=20") as gateway:
        await _occupied(gateway)
        session = await gateway.session()
        tasks = len(asyncio.all_tasks())
        body = b'{"text": "never"}'
        head = gateway.head(
            "POST",
            f"/v1/sessions/{session}/turns",
            Content_Type="application/json",
            Content_Length=len(body),
            Accept=SSE["Accept"],
        )
        async with gateway.socket() as (_, writer):
            writer.write(head + body)
            await until(lambda: len(asyncio.all_tasks()) > tasks + 2)
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        assert (await gateway.http.get(f"/v1/sessions/{session}/turns")).json()["turns"] == []


async def test_shutdown_while_a_turn_waits(tmp_path: Path) -> None:
    async with running(tmp_path, ONE, "runtime.queue_seconds=20") as gateway:
        await _occupied(gateway)
        path = f"/v1/sessions/{await gateway.session()}/turns"
        tasks = len(asyncio.all_tasks())
        waiting = asyncio.create_task(gateway.http.post(path, json={"text": "x"}, headers=SSE))
        await until(lambda: len(asyncio.all_tasks()) > tasks + 2)
        await gateway.service.stop(10)
        response = await waiting
        problem_of(response, 503, "UNAVAILABLE")
        assert response.headers["Retry-After"] == "1"
