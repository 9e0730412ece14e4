"""A real gateway in front of a real session service whose Turns follow a script."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from fleet.session.v1 import turn_event_pb2 as pb

from gateway.main import GatewayService, build_service
from tests.fakes.turn_engine import Running, ScriptedEngine, begin, complete, echo, until_stopped
from tests.integration.session.rig import Replica, make_policy, serving

SSE = {"Accept": "text/event-stream"}
MIB = 1024 * 1024


@dataclass
class Gateway:
    """A running gateway, the session service behind it, and a client."""

    service: GatewayService
    replica: Replica
    url: str
    http: httpx.AsyncClient

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    async def session(self) -> str:
        response = await self.http.post("/v1/sessions", json={"title": "test"})
        return str(response.raise_for_status().json()["id"])

    async def start(self, session: str, text: str = "hello", **body: Any) -> str:
        """Start a Turn; returns its id."""
        response = await self.http.post(f"/v1/sessions/{session}/turns", json={"text": text, **body})
        return str(response.raise_for_status().json()["id"])

    async def run(self, text: str = "hello", **body: Any) -> str:
        """Run a Turn to its end in a Session of its own; returns its id."""
        turn = await self.start(await self.session(), text, **body)
        await self.events(turn)
        return turn

    async def turn(self, turn: str) -> dict[str, Any]:
        response = await self.http.get(f"/v1/turns/{turn}")
        found: dict[str, Any] = response.raise_for_status().json()
        return found

    async def events(self, turn: str) -> list[dict[str, Any]]:
        async with self.http.stream("GET", f"/v1/turns/{turn}/events") as response:
            response.raise_for_status()
            return [event async for event in events_of(response)]

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A plain connection to the gateway; broken off at the end."""
        plain = socket.socket()
        plain.setblocking(False)
        # A small window, so that a client that doesn't read is noticed early.
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=plain)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def head(self, method: str, path: str, **headers: object) -> bytes:
        """The head of a request for `socket`."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode()

    def released(self, turn: str) -> None:
        """Let a Turn that runs `until_stopped` end."""
        self.replica.engine.runs[turn].released.set()


async def by_text(run: Running) -> None:
    """`wait` runs until it is stopped or released, `many N` makes N events, anything else is echoed."""
    text = run.job.turn.input.text
    if text == "wait":
        await until_stopped(run)
    elif text.startswith("many "):
        await many(run, int(text.split()[1]))
    else:
        await echo(run)


async def many(run: Running, count: int) -> None:
    """A Turn with `count` pieces of output of about 1 000 bytes."""
    await begin(run)
    for number in range(count):
        run.record.append("output", pb.StepOutput(iteration=1, text=f"{number:06d}" + "x" * 994))
        if number % 2000 == 0:
            await run.record.flush()
    await complete(run, "many")


@asynccontextmanager
async def gateway_before(replica: Replica, silence: float = 15.0, grace: float = 1.0) -> AsyncIterator[Gateway]:
    """A gateway in front of `replica`."""
    service = build_service(replica.policy.with_addresses({"session": replica.address}), silence_seconds=silence)
    try:
        url = await service.start()
        async with httpx.AsyncClient(base_url=url, timeout=20) as http:
            yield Gateway(service, replica, url, http)
    finally:
        await service.stop(grace)


@asynccontextmanager
async def running(root: Path, *overrides: str, silence: float = 15.0) -> AsyncIterator[Gateway]:
    """A gateway and its session service."""
    policy = make_policy(root, "server.ports.gateway=0", *overrides)
    async with serving(policy, ScriptedEngine(by_text)) as replica, gateway_before(replica, silence) as gateway:
        yield gateway


async def frames_of(response: httpx.Response) -> AsyncIterator[dict[str, str]]:
    """The frames of a server-sent event stream: their fields by name; comments under an empty name."""
    frame: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            assert name not in frame, frame
            frame[name] = value.removeprefix(" ")
        else:
            yield frame
            frame = {}
    assert not frame, "the stream ended inside a frame"


async def events_of(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The events of a stream, each checked against its frame."""
    async for frame in frames_of(response):
        if "data" in frame:
            event: dict[str, Any] = json.loads(frame["data"])
            assert (frame["event"], int(frame["id"])) == (event["type"], event["sequence"])
            yield event


def problem_of(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of a response, which must have this status and code."""
    assert (response.status_code, response.headers["Content-Type"]) == (status, "application/problem+json"), response
    document: dict[str, Any] = response.json()
    assert (document["status"], document["code"]) == (status, code), document
    assert document["request_id"] == response.headers["X-Request-ID"]
    assert document["detail"]
    return document


def fields_of(document: dict[str, Any]) -> list[str]:
    return [error["field"] for error in document["errors"]]


async def until(condition: Any, seconds: float = 10.0) -> None:
    """Return when `condition()` holds, which another task will make true."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
