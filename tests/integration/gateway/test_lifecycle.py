"""Start, shutdown with work under way, and a session service that goes and comes back."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from config.problem import ConfigError
from gateway.main import build_service
from tests.integration.common.test_channel import write_certificate
from tests.integration.gateway.rig import MIB, SSE, Gateway, events_of, frames_of, problem_of, until
from tests.integration.session import victim
from tests.integration.session.rig import make_policy, serving

ROOT = Path(__file__).parents[3]


def _policy(root: Path, *overrides: str) -> Any:
    return make_policy(root, "server.ports.gateway=0", *overrides)


async def test_open_streams_end_cleanly_at_shutdown(gateway: Gateway) -> None:
    turn = await gateway.start(await gateway.session(), "wait")
    path = f"/v1/sessions/{await gateway.session()}/turns"
    body = {"text": "wait"}

    async def last_frame(method: str, url: str, **request: Any) -> dict[str, str]:
        last: dict[str, str] = {}
        async with gateway.http.stream(method, url, **request) as response:
            async for frame in frames_of(response):
                last = frame
                begun.add(url)
        return last

    begun: set[str] = set()
    watching = asyncio.create_task(last_frame("GET", f"/v1/turns/{turn}/events"))
    posting = asyncio.create_task(last_frame("POST", path, json=body, headers=SSE))
    await until(lambda: len(begun) == 2)
    began = time.monotonic()
    await gateway.service.stop(30)
    assert time.monotonic() - began < 3
    assert await watching == await posting == {"retry": "500"}
    with pytest.raises(httpx.ConnectError):
        await gateway.http.get("/healthz")
    assert gateway.replica.engine.runs[turn].stopped.is_set() is False


async def test_stalled_streams_do_not_hold_up_shutdown(gateway: Gateway) -> None:
    turn = await gateway.run("many 5000")
    async with gateway.socket() as (reader, writer):
        writer.write(gateway.head("GET", f"/v1/turns/{turn}/events"))
        await reader.readline()
        began = time.monotonic()
        await gateway.service.stop(30)
        assert time.monotonic() - began < 3


async def test_requests_under_way_get_their_time(gateway: Gateway) -> None:
    async with gateway.socket() as (reader, writer), asyncio.timeout(15):
        head = gateway.head("POST", "/v1/attachments", X_Filename="a", Content_Length=2 * MIB)
        writer.write(head + b"x" * MIB)
        await writer.drain()
        stopping = asyncio.create_task(gateway.service.stop(10))
        await until(lambda: _refuses(gateway.port))
        writer.write(b"x" * MIB)
        assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")
        await stopping


async def test_requests_that_take_too_long_are_cut(gateway: Gateway) -> None:
    tasks = len(asyncio.all_tasks())
    async with gateway.socket() as (reader, writer), asyncio.timeout(15):
        writer.write(gateway.head("POST", "/v1/attachments", X_Filename="a", Content_Length=2 * MIB) + b"x" * MIB)
        await until(lambda: len(asyncio.all_tasks()) > tasks)
        await gateway.service.stop(1)
        assert b"201" not in await reader.read()
    files = [path for path in gateway.replica.policy.storage.root.glob("blobs/**/*") if path.is_file()]
    assert files == []


def _refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_session_service_that_is_away(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{taken.getsockname()[1]}"
        service = build_service(_policy(tmp_path).with_addresses({"session": away}))
        url = await service.start()
        try:
            async with httpx.AsyncClient(base_url=url, timeout=20) as http:
                assert (await http.get("/healthz")).status_code == 200
                ready = await http.get("/readyz")
                assert (ready.status_code, ready.json()["status"]) == (503, "session service unreachable")
                assert ready.headers["Retry-After"] == "2"
                for method, path, request in (
                    ("POST", "/v1/sessions", {"json": {}}),
                    ("POST", "/v1/sessions/a/turns", {"json": {"text": "x"}, "headers": SSE}),
                    ("GET", "/v1/turns/a/events", {}),
                    ("POST", "/v1/attachments", {"files": {"file": ("a", b"x" * MIB)}}),
                    ("GET", "/v1/attachments/a/content", {}),
                ):
                    response = await http.request(method, path, **request)
                    document = problem_of(response, 503, "UNAVAILABLE")
                    assert response.headers["Retry-After"] == "2"
                    assert away not in str(document)
        finally:
            await service.stop(1)


@asynccontextmanager
async def killable(root: Path, url: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The address and process of a session service that can be killed."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'gen'}"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, victim.__file__, str(root), url, stdout=asyncio.subprocess.PIPE, env=environment
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip(), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_stream_outlives_a_killed_session_service(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/session.db"
    events: list[dict[str, Any]] = []
    async with AsyncExitStack() as stack:
        address, process = await stack.enter_async_context(killable(tmp_path, url))
        service = build_service(_policy(tmp_path).with_addresses({"session": address}))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=await service.start(), timeout=20))
        stack.push_async_callback(service.stop, 1)
        session = (await http.post("/v1/sessions", json={})).json()["id"]
        turn = (await http.post(f"/v1/sessions/{session}/turns", json={"text": "stay"})).json()["id"]

        async def follow() -> None:
            async with http.stream("GET", f"/v1/turns/{turn}/events") as response:
                async for event in events_of(response):
                    events.append(event)

        following = asyncio.create_task(follow())
        await until(lambda: len(events) > 50)
        process.kill()
        await process.wait()
        assert (await http.get("/readyz")).status_code == 503
        again = make_policy(tmp_path, *victim.OVERRIDES, f"services.session.address={address}")
        await stack.enter_async_context(serving(again, env={"FLEET_SESSION_DATABASE_URL": url}))
        async with asyncio.timeout(20):
            await following
        assert (await http.get("/readyz")).status_code == 200
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert (events[-1]["type"], events[-1]["error"]["reason"]) == ("turn.failed", "OWNER_LOST")


async def test_address_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        service = build_service(make_policy(tmp_path, f"server.ports.gateway={taken.getsockname()[1]}"))
        with pytest.raises(ConfigError, match=r"can.t listen on 127\.0\.0\.1"):
            await service.start()
        await service.stop(1)


async def test_other_machines_are_kept_out(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    for host in ("0.0.0.0", "192.0.2.1", "example.org"):
        server = policy.server.model_copy(update={"host": host})
        with pytest.raises(ConfigError, match="loopback"):
            await build_service(policy.model_copy(update={"server": server})).start()


async def test_ipv6_loopback(tmp_path: Path) -> None:
    policy = _policy(tmp_path)
    server = policy.server.model_copy(update={"host": "::1"})
    service = build_service(policy.model_copy(update={"server": server}))
    url = await service.start()
    try:
        async with httpx.AsyncClient(base_url=url) as http:
            assert url.startswith("http://[::1]:")
            assert (await http.get("/healthz")).status_code == 200
    finally:
        await service.stop(1)


async def test_tls(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    files = {"tls_cert_file": certificate, "tls_key_file": key, "tls_ca_file": certificate}
    policy = _policy(tmp_path, *(f"server.{name}={path}" for name, path in files.items()))
    async with serving(policy) as replica:
        service = build_service(policy.with_addresses({"session": replica.address}))
        url = await service.start()
        try:
            assert url.startswith("https://127.0.0.1:")
            trusted = ssl.create_default_context(cafile=str(certificate))
            async with httpx.AsyncClient(base_url=url, verify=trusted) as http:
                assert (await http.post("/v1/sessions", json={}, headers={"Origin": url})).status_code == 201
        finally:
            await service.stop(1)


async def test_tls_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("no certificate")
    policy = _policy(tmp_path, *(f"server.tls_{name}_file={tmp_path}/none.pem" for name in ("cert", "key")))
    with pytest.raises(ConfigError, match=r"server\.tls_cert_file"):
        await build_service(policy).start()
