"""What holds for every request: problem documents, limits, headers, origins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.middleware.body_limits import MAX_BODY_BYTES
from gateway.problems import MAX_FIELDS
from tests.integration.gateway.rig import MIB, Gateway, fields_of, problem_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b'{"title": ', ["body"]),
        (b"", ["body"]),
        (b"\xff\xfe{}", ["body"]),
        (b'{"title": "\xff"}', ["body"]),
        (b"[" * 100_000, ["body"]),
        (b'{"title": 1' + b"0" * 5000 + b"}", ["body"]),
        (b"null", ["body"]),
        (b'"text"', ["body"]),
        (b'{"title": null}', ["title"]),
        (b'{"title": "\\ud800"}', ["title"]),
        (b'{"\\ud800": "x"}', ["body"]),
        (b'{"labels": {"\\udfff": "x"}}', ["labels.\N{REPLACEMENT CHARACTER}" * 1]),
        (b'{"a": 1, "b": 2}', ["a", "b"]),
    ],
)
async def test_bodies_that_are_no_such_object(shared: Gateway, body: bytes, fields: list[str]) -> None:
    response = await shared.http.post("/v1/sessions", content=body, headers=JSON)
    named = fields_of(problem_of(response, 422, "INVALID_ARGUMENT"))
    assert [name.rstrip("\N{REPLACEMENT CHARACTER}") for name in named] == [
        name.rstrip("\N{REPLACEMENT CHARACTER}") for name in fields
    ]


async def test_body_of_another_media_type(shared: Gateway) -> None:
    # Pages of other sites can send such bodies without asking first.
    response = await shared.http.post("/v1/sessions", content=b"{}", headers={"Content-Type": "text/plain"})
    document = problem_of(response, 422, "INVALID_ARGUMENT")
    assert "application/json" in document["errors"][0]["message"]


async def test_problem_documents_are_bounded(shared: Gateway) -> None:
    body = {f"{'x' * 2000}{number}": 1 for number in range(200)}
    response = await shared.http.post("/v1/sessions", json=body)
    assert len(problem_of(response, 422, "INVALID_ARGUMENT")["errors"]) == MAX_FIELDS
    assert len(response.content) < 32_768


async def test_nul_characters(shared: Gateway) -> None:
    http = shared.http
    response = await http.post("/v1/sessions", json={"title": "a\0b"})
    assert response.status_code in {201, 422}
    turn = await shared.run("question\0with nul")
    assert (await shared.turn(turn))["text"] == "question\0with nul"


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/sessions/none/turns"])
async def test_large_bodies(shared: Gateway, path: str) -> None:
    declared = await shared.http.post(path, content=b" " * (MAX_BODY_BYTES + 1), headers=JSON)
    problem_of(declared, 413, "CONTENT_TOO_LARGE")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b" " * MIB

    problem_of(await shared.http.post(path, content=chunks(), headers=JSON), 413, "CONTENT_TOO_LARGE")
    whole = b'{"title": ""' + b" " * (MAX_BODY_BYTES - 13) + b"}"
    assert (await shared.http.post("/v1/sessions", content=whole, headers=JSON)).status_code == 201


async def test_refused_before_the_body_was_sent(shared: Gateway) -> None:
    json = "application/json"
    head = shared.head("POST", "/v1/sessions", Content_Type=json, Content_Length=2**40, Expect="100-continue")
    async with shared.socket() as (reader, writer), asyncio.timeout(5):
        writer.write(head)
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/sessions", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/v1/sessions/x", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("DELETE", "/v1/turns/x", "GET, HEAD, OPTIONS"),
        ("GET", "/v1/turns/x:cancel", "OPTIONS, POST"),
        ("PATCH", "/healthz", "GET, HEAD, OPTIONS"),
        ("BREW", "/v1/sessions", "GET, HEAD, OPTIONS, POST"),
    ],
)
async def test_methods(shared: Gateway, method: str, path: str, allow: str) -> None:
    response = await shared.http.request(method, path)
    if response.status_code == 404:
        # A GET of `…:cancel` is a GET of a Turn whose id has a colon.
        assert path.endswith(":cancel")
        return
    problem_of(response, 405, "METHOD_NOT_ALLOWED")
    assert response.headers["Allow"] == allow
    options = await shared.http.options(path)
    assert (options.status_code, options.headers["Allow"]) == (204, allow)
    assert "Access-Control-Allow-Origin" not in options.headers


@pytest.mark.parametrize("path", ["/healthz", "/v1/sessions", "/console", "/console/main.js", "/openapi.json"])
async def test_head_is_get_without_a_body(shared: Gateway, path: str) -> None:
    get, head = await shared.http.get(path), await shared.http.head(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    per_request = {"date", "x-request-id"}
    assert {k: v for k, v in head.headers.items() if k not in per_request} == {
        k: v for k, v in get.headers.items() if k not in per_request
    }
    assert (await shared.http.head("/v1/turns/none")).status_code == 404


async def test_headers_of_every_answer(shared: Gateway) -> None:
    http = shared.http
    answers = [
        await http.get("/healthz"),
        await http.get("/v1/nothing"),
        await http.post("/v1/sessions", json={}),
        await http.get("/console"),
        await http.get("/healthz", headers={"Origin": "https://evil.example"}),
    ]
    for response in answers:
        headers = response.headers
        assert "Server" not in headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] in {"no-store", "no-cache"}
        assert headers["X-Request-ID"]


@pytest.mark.parametrize(("given", "kept"), [("abc-1.2_X", True), ("a b", False), ("x" * 129, False), ("", False)])
async def test_request_ids(shared: Gateway, given: str, kept: bool) -> None:
    response = await shared.http.get("/v1/turns/none", headers={"X-Request-ID": given})
    assert (response.headers["X-Request-ID"] == given) is kept
    problem_of(response, 404, "TURN_NOT_FOUND")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "[::1"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Origin": "http://[::1"},
    ],
)
async def test_pages_of_other_sites_are_refused(shared: Gateway, headers: dict[str, str]) -> None:
    response = await shared.http.post("/v1/sessions", json={}, headers=headers)
    problem_of(response, 403, "PERMISSION_DENIED")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "127.0.0.2"])
async def test_own_pages_are_served(shared: Gateway, host: str) -> None:
    headers = {"Host": f"{host}:{shared.port}", "Origin": f"http://{host}:{shared.port}"}
    assert (await shared.http.get("/healthz", headers=headers)).status_code == 200


async def test_broken_http_is_refused(shared: Gateway) -> None:
    for garbage in (b"\x16\x03\x01\x02\0\x01\0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET " + b"a" * 100_000):
        async with shared.socket() as (reader, writer), asyncio.timeout(5):
            writer.write(garbage)
            assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")


async def test_health_and_metrics(shared: Gateway) -> None:
    http = shared.http
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).json() == {"status": "ok"}
    await http.get("/v1/turns/none")
    text = (await http.get("/metrics")).text
    assert 'gateway_http_requests_total{method="GET",route="/v1/turns/{turn_id}",status="404"}' in text
    assert "gateway_http_seconds_bucket" in text
    assert "gateway_event_streams 0.0" in text
