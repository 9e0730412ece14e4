"""The protocol over real HTTP: replies, streams, refusals, start and stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys

import httpx
import pytest

from config.loader import load
from config.problem import ConfigError
from services.offline.main import build_service
from services.offline.server import OfflineService
from services.offline.wire import MAX_BODY_BYTES

ASKED = {
    "model": "fleet-offline",
    "messages": [{"role": "user", "content": "When does it open?\n\nThe shop opens at nine. It sells tea."}],
}


def test_a_reply(http: httpx.Client) -> None:
    body = http.post("/chat/completions", json=ASKED).json()
    (choice,) = body["choices"]
    assert (body["object"], body["model"], choice["finish_reason"]) == ("chat.completion", "fleet-offline", "stop")
    assert choice["message"]["content"].startswith('- "The shop opens at nine."')
    assert "offline model" in choice["message"]["content"]
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 10


def test_a_stream_says_the_same(http: httpx.Client) -> None:
    whole = http.post("/chat/completions", json=ASKED).json()
    asked = ASKED | {"stream": True, "stream_options": {"include_usage": True}}
    with http.stream("POST", "/chat/completions", json=asked) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    assert chunks.pop()["usage"] == whole["usage"]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == whole["choices"][0]["message"]["content"]


def test_models_and_health(http: httpx.Client) -> None:
    assert [model["id"] for model in http.get("/models").json()["data"]] == ["fleet-offline"]
    assert http.get(str(http.base_url).replace("/v1/", "/healthz")).json()["status"] == "ok"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"\xff", 400, "invalid_json"),
        (b"[]", 400, "invalid_json"),
        (b"[" * 200_000, 400, "invalid_json"),
        (b'{"model": "fleet-offline"}', 400, "empty_messages"),
        (b'{"model": "other", "messages": []}', 404, "model_not_found"),
        (b" " * (MAX_BODY_BYTES + 1), 413, "request_too_large"),
    ],
    ids=str,
)
def test_refusals_have_the_error_shape(http: httpx.Client, body: bytes, status: int, code: str) -> None:
    response = http.post("/chat/completions", content=body)
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code


def test_unknown_pages_and_methods(http: httpx.Client) -> None:
    assert http.get("/nothing").json()["error"]["code"] == "not_found"
    assert http.get("/chat/completions").json()["error"]["code"] == "method_not_allowed"


def test_lone_surrogates_are_text_like_any_other(http: httpx.Client) -> None:
    text = b'{"model": "fleet-offline", "messages": [{"role": "user", "content": "What?\\n\\nIt is \\ud800 what."}]}'
    response = http.post("/chat/completions", content=text)
    assert response.status_code == 200
    assert "It is" in response.json()["choices"][0]["message"]["content"]


async def test_it_starts_at_the_policys_address_and_stops_with_an_open_connection() -> None:
    service = build_service(load("test", env={}))
    base_url = await service.start()
    port = int(base_url.removesuffix("/v1").rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    taken = OfflineService("127.0.0.1", port)
    with pytest.raises(ConfigError, match="can't listen at"):
        await taken.start()
    await taken.stop()
    await asyncio.wait_for(service.stop(1.0), 10)
    await service.stop()
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


def test_it_runs_as_a_process_until_a_signal(tmp_path: os.PathLike[str]) -> None:
    command = [
        sys.executable,
        "-m",
        "services.offline",
        "--profile",
        "local",
        "--set",
        "services.offline.address=127.0.0.1:0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        assert httpx.get(f"{ready['address']}/models").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
