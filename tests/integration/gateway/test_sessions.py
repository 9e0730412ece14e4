from __future__ import annotations

import pytest

from tests.integration.gateway.rig import Gateway, fields_of, problem_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_life_of_a_session(shared: Gateway) -> None:
    http = shared.http
    made = await http.post("/v1/sessions", json={"title": "Licences", "labels": {"team": "ä"}})
    session = made.json()
    path = f"/v1/sessions/{session['id']}"
    assert (made.status_code, made.headers["Location"]) == (201, path)
    assert session["name"] == f"sessions/{session['id']}"
    assert (session["title"], session["state"], session["labels"]) == ("Licences", "ACTIVE", {"team": "ä"})
    assert session["checkpoint_version"] == 0
    assert session["create_time"].endswith("Z")
    assert (await http.get(path)).json() == session
    changed = (await http.patch(path, json={"title": "", "state": "ARCHIVED", "etag": session["etag"]})).json()
    assert (changed["title"], changed["state"], changed["labels"]) == ("", "ARCHIVED", {"team": "ä"})
    stale = await http.patch(path, json={"labels": {}, "etag": session["etag"]})
    problem_of(stale, 409, "ETAG_MISMATCH")
    assert (await http.patch(path, json={"labels": {}})).json()["labels"] == {}
    problem_of(await http.post(f"{path}/turns", json={"text": "hello"}), 409, "SESSION_ARCHIVED")
    gone = await http.delete(path)
    assert (gone.status_code, gone.content) == (204, b"")
    problem_of(await http.get(path), 404, "SESSION_NOT_FOUND")
    problem_of(await http.delete(path), 404, "SESSION_NOT_FOUND")


async def test_pages_and_states(shared: Gateway) -> None:
    http = shared.http
    made = [await shared.session() for _ in range(3)]
    await http.patch(f"/v1/sessions/{made[0]}", json={"state": "ARCHIVED"})
    first = (await http.get("/v1/sessions", params={"page_size": 2})).json()
    assert len(first["sessions"]) == 2
    token = first["next_page_token"]
    second = (await http.get("/v1/sessions", params={"page_size": 2, "page_token": token})).json()
    seen = [session["id"] for page in (first, second) for session in page["sessions"]]
    assert set(made) <= set(seen)
    assert len(seen) == len(set(seen))
    archived = (await http.get("/v1/sessions", params={"state": "ARCHIVED"})).json()["sessions"]
    assert made[0] in [session["id"] for session in archived]
    assert {session["state"] for session in archived} == {"ARCHIVED"}
    problem_of(await http.get("/v1/sessions", params={"page_token": "made-up"}), 422, "PAGE_TOKEN_INVALID")


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/sessions", {"title": "x" * 256}, "title"),
        ("POST", "/v1/sessions", {"title": 1}, "title"),
        ("POST", "/v1/sessions", {"surprise": 1}, "surprise"),
        ("POST", "/v1/sessions", {"labels": {"": "x"}}, "labels"),
        ("POST", "/v1/sessions", {"labels": {str(n): "x" for n in range(33)}}, "labels"),
        ("POST", "/v1/sessions", [], "body"),
        ("PATCH", "/v1/sessions/x", {}, "body"),
        ("PATCH", "/v1/sessions/x", {"state": "DELETED"}, "state"),
        ("PATCH", "/v1/sessions/x", {"name": "sessions/y"}, "name"),
        ("GET", "/v1/sessions?page_size=201", None, "page_size"),
        ("GET", "/v1/sessions?page_size=many", None, "page_size"),
        ("GET", "/v1/sessions?state=GONE", None, "state"),
    ],
)
async def test_bad_input_names_the_field(shared: Gateway, method: str, path: str, body: object, field: str) -> None:
    response = await shared.http.request(method, path, json=body)
    assert fields_of(problem_of(response, 422, "INVALID_ARGUMENT")) == [field]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/sessions/none", "SESSION_NOT_FOUND"),
        ("GET", "/v1/sessions/Not-An-Id", "SESSION_NOT_FOUND"),
        ("GET", "/v1/sessions/%00", "SESSION_NOT_FOUND"),
        ("GET", "/v1/sessions/a%0A", "SESSION_NOT_FOUND"),
        ("GET", f"/v1/sessions/{'a' * 65}", "SESSION_NOT_FOUND"),
        ("DELETE", "/v1/sessions/none", "SESSION_NOT_FOUND"),
        ("GET", "/v1/sessions/none/turns", "SESSION_NOT_FOUND"),
        ("GET", "/v1/turns/none", "TURN_NOT_FOUND"),
        ("GET", "/v1/turns/..", "NOT_FOUND"),
        ("GET", "/v1/turns/none/events", "TURN_NOT_FOUND"),
        ("GET", "/v1/turns/none/events?stream=false", "TURN_NOT_FOUND"),
        ("POST", "/v1/turns/none:cancel", "TURN_NOT_FOUND"),
        ("GET", "/v1/attachments/none", "ATTACHMENT_NOT_FOUND"),
        ("GET", "/v1/attachments/none/content", "ATTACHMENT_NOT_FOUND"),
        ("DELETE", "/v1/attachments/none", "ATTACHMENT_NOT_FOUND"),
        ("GET", "/v1/nothing", "NOT_FOUND"),
        ("GET", "/v1/sessions/", "NOT_FOUND"),
        ("GET", "/console/../main.py", "NOT_FOUND"),
        ("GET", "/console/%2e%2e%2fmain.py", "NOT_FOUND"),
        ("GET", "/docs", "NOT_FOUND"),
    ],
)
async def test_what_is_not_there(shared: Gateway, method: str, path: str, code: str) -> None:
    problem_of(await shared.http.request(method, path), 404, code)
