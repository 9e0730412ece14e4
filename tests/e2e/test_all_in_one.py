"""`fleet up` with a provider: one Turn over every interface, and what lives on between Turns."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import grpc
import httpx
import pytest
from fleet.session.v1 import session_service_pb2
from fleet.session.v1.session_service_pb2_grpc import SessionServiceStub
from fleet.session.v1.turn_pb2 import TURN_STATE_COMPLETED

from tests.e2e.deployment import Deployment
from tests.e2e.rest_client import sse

pytestmark = pytest.mark.timeout(180)


def test_turn_over_rest(deployment: Deployment) -> None:
    rest = deployment.rest
    session = rest.session()
    response = rest.start(session, "What is the answer?", key="k1")
    assert response.status_code == 202
    turn = response.json()
    assert response.headers["Location"] == f"/v1/turns/{turn['id']}"
    events = list(rest.events(turn["id"]))
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["type"] for event in events]
    assert kinds[0] == "turn.started"
    assert kinds[-2:] == ["answer", "turn.completed"]
    assert {"sandbox.ready", "iteration.started", "reasoning", "code", "output", "lm.completed"} <= set(kinds)
    ended = rest.turn(turn["id"])
    assert (ended["state"], ended["answer"], ended["termination"]) == ("COMPLETED", "42", "submit")
    assert ended["outputs"] == {"answer": "42"}
    assert ended["budget"]["iterations"]["used"] == 2
    again = rest.start(session, "What is the answer?", key="k1")
    assert (again.status_code, again.json()["id"]) == (202, turn["id"])
    other = rest.start(session, "Something else?", key="k1")
    assert (other.status_code, other.json()["code"]) == (422, "REQUEST_ID_REUSED")
    stored = rest.http.get(f"/v1/turns/{turn['id']}/events", params={"stream": "false"}).json()
    assert stored == events


def test_dropped_stream_is_resumed_without_gap_or_repeat(deployment: Deployment) -> None:
    rest = deployment.rest
    session = rest.session()
    deployment.gate.clear()
    headers = {"Accept": "text/event-stream"}
    seen: list[dict[str, Any]] = []
    body = {"text": "QUESTION-WAIT"}
    with rest.http.stream("POST", f"/v1/sessions/{session}/turns", json=body, headers=headers) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        for event in sse(response):
            seen.append(event)
            if event["type"] == "output":
                break
    turn = seen[0]["turn"].rpartition("/")[2]
    busy = rest.start(session, "another")
    assert (busy.status_code, busy.json()["code"]) == (409, "TURN_IN_PROGRESS")
    assert busy.headers["Location"] == f"/v1/turns/{turn}"
    deployment.gate.set()
    seen += list(rest.events(turn, last_event_id=seen[-1]["sequence"]))
    assert [event["sequence"] for event in seen] == list(range(1, len(seen) + 1))
    assert seen[-1]["type"] == "turn.completed"
    assert rest.http.get(f"/v1/turns/{turn}/events", headers={"Last-Event-ID": str(len(seen))}).status_code == 204
    garbage = rest.http.get(f"/v1/turns/{turn}/events", headers={"Last-Event-ID": "x"})
    assert (garbage.status_code, garbage.json()["errors"][0]["field"]) == (422, "Last-Event-ID")
    assert rest.http.get(f"/v1/turns/{turn}/events", headers={"Last-Event-ID": "9999"}).status_code == 416


def test_cancel(deployment: Deployment) -> None:
    rest = deployment.rest
    deployment.gate.clear()
    turn = rest.start(rest.session(), "QUESTION-WAIT").json()["id"]
    kinds = []
    for event in rest.events(turn):
        kinds.append(event["type"])
        if event["type"] == "output":
            assert rest.http.post(f"/v1/turns/{turn}:cancel").status_code == 202
    assert kinds[-1] == "turn.cancelled"
    assert rest.turn(turn)["state"] == "CANCELLED"
    assert rest.http.post(f"/v1/turns/{turn}:cancel").status_code == 202
    deployment.gate.set()


def test_globals_live_on_after_a_clean_turn_and_not_after_a_failed_one(deployment: Deployment) -> None:
    rest = deployment.rest
    session = rest.session()
    assert rest.run(session, "QUESTION-SET")["answer"] == "set"
    assert rest.run(session, "QUESTION-READ")["answer"] == "42"
    failed = rest.run(session, "QUESTION-BROKEN")
    assert (failed["state"], failed["error"]["reason"]) == ("FAILED", "MODEL_UNAUTHENTICATED")
    assert "sk-secret" not in json.dumps(failed)
    turn = rest.start(session, "QUESTION-READ", budget={"iterations": 2}).json()["id"]
    events = list(rest.events(turn))
    ready = next(event for event in events if event["type"] == "sandbox.ready")
    assert (ready["resident"], bool(ready["rotation_reason"])) == (False, True)
    output = next(event for event in events if event["type"] == "output" and event["final"])
    assert "NameError" in output["text"]
    assert rest.http.get(f"/v1/sessions/{session}").json()["checkpoint_version"] in {2, 3}


def test_turn_over_buf_curl_by_reflection(deployment: Deployment) -> None:
    buf = shutil.which("buf", path=str(deployment.process.process.args[0]).rpartition("/")[0])
    assert buf is not None
    session = deployment.rest.session()
    service = f"http://{deployment.addresses['session']}/fleet.session.v1.SessionService"
    request = json.dumps({"session": f"sessions/{session}", "requestId": "curl", "text": "What is the answer?"})
    options = ["--reflect", "--protocol", "grpc", "--http2-prior-knowledge"]
    command = [buf, "curl", *options, "-d", request, f"{service}/RunTurn"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    batches = [json.loads(part) for part in _objects(done.stdout)]
    events = [event for batch in batches for event in batch["events"]]
    assert events[-1]["turnCompleted"]["checkpointVersion"] == "1"
    assert next(event["answer"]["text"] for event in events if "answer" in event) == "42"


def test_turn_with_the_generated_stubs(deployment: Deployment) -> None:
    with grpc.insecure_channel(deployment.addresses["session"]) as channel:
        sessions = SessionServiceStub(channel)
        session = sessions.CreateSession(session_service_pb2.CreateSessionRequest())
        request = session_service_pb2.RunTurnRequest(
            session=session.name, request_id="stub", text="What is the answer?"
        )
        events = [event for batch in sessions.RunTurn(request, timeout=60) for event in batch.events]
        assert events[-1].WhichOneof("payload") == "turn_completed"
        turn = sessions.GetTurn(session_service_pb2.GetTurnRequest(name=events[-1].turn))
        assert (turn.state, turn.answer) == (TURN_STATE_COMPLETED, "42")
        with pytest.raises(grpc.RpcError) as caught:
            sessions.RunTurn(session_service_pb2.RunTurnRequest(session=session.name, request_id="r", text=" ")).next()
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
        assert "text" in caught.value.details()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": ""}, "text"),
        ({"text": " \n\t"}, "text"),
        ({"text": "x" * 100_001}, "text"),
        ({"text": "x", "surprise": 1}, "surprise"),
        ({"text": "x", "attachments": ["../etc"]}, "attachments.0"),
        ({"text": "x", "budget": {"llm_calls": 10_000}}, "budget.llm_calls"),
        ({"text": "x", "timeout_seconds": 0}, "timeout_seconds"),
        ({}, "text"),
    ],
)
def test_bad_turns_name_the_field(deployment: Deployment, body: dict[str, Any], field: str) -> None:
    response = deployment.rest.http.post(f"/v1/sessions/{deployment.rest.session()}/turns", json=body)
    assert response.status_code == 422
    assert response.headers["Content-Type"] == "application/problem+json"
    assert field in [error["field"] for error in response.json()["errors"]]


@pytest.mark.parametrize(
    "path", ["/v1/sessions/none", "/v1/turns/none", "/v1/attachments/none", "/v1/turns/none/events"]
)
def test_unknown_ids_are_not_found(deployment: Deployment, path: str) -> None:
    response = deployment.rest.http.get(path)
    assert response.status_code == 404
    assert response.json()["code"].endswith("_NOT_FOUND")


def test_upload_and_download(deployment: Deployment) -> None:
    http = deployment.rest.http
    content = bytes(range(256)) * 5000
    made = http.post("/v1/attachments", files={"file": ("ä b.bin", content, "application/x-thing")})
    assert made.status_code == 201, made.text
    found = made.json()
    assert (found["filename"], found["byte_size"], found["content_type"]) == (
        "ä b.bin",
        len(content),
        "application/x-thing",
    )
    path = f"/v1/attachments/{found['id']}/content"
    whole = http.get(path)
    assert whole.content == content
    assert whole.headers["ETag"] == f'"{found["sha256"]}"'
    assert http.get(path, headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
    part = http.get(path, headers={"Range": "bytes=1000-1999"})
    assert (part.status_code, part.content) == (206, content[1000:2000])
    assert part.headers["Content-Range"] == f"bytes 1000-1999/{len(content)}"
    assert http.get(path, headers={"Range": f"bytes={len(content)}-"}).status_code == 416
    wrong = http.post("/v1/attachments", content=b"abc", headers={"X-Filename": "a", "X-Content-SHA256": "0" * 64})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "CHECKSUM_MISMATCH")
    empty = http.post("/v1/attachments", content=b"", headers={"X-Filename": "a"})
    assert (empty.status_code, empty.json()["code"]) == (422, "UPLOAD_INCOMPLETE")
    assert http.delete(f"/v1/attachments/{found['id']}").status_code == 204
    assert http.get(path).status_code == 404


def test_console_health_and_schema(deployment: Deployment) -> None:
    http = deployment.rest.http
    page = http.get("/console")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for name in ("console.css", "main.js", "api.js", "view.js", "picture.js", "markdown.js", "dom.js", "icon.svg"):
        assert http.get(f"/console/{name}").status_code == 200, name
    assert http.get("/console/..%2fmain.py").status_code == 404
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").json() == {"status": "ok"}
    assert "/v1/sessions/{session_id}/turns" in http.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
def test_pages_of_other_sites_are_refused(deployment: Deployment, headers: dict[str, str]) -> None:
    response = httpx.post(f"{deployment.addresses['gateway']}/v1/sessions", json={}, headers=headers)
    assert (response.status_code, response.json()["code"]) == (403, "PERMISSION_DENIED")


def _objects(text: str) -> list[str]:
    """The JSON objects that stand one after another in `text`."""
    decoder = json.JSONDecoder()
    found, place = [], 0
    while place < len(text.rstrip()):
        _value, end = decoder.raw_decode(text, place)
        found.append(text[place:end])
        place = end + len(text[end:]) - len(text[end:].lstrip())
    return found
