"""A small REST client for the end-to-end tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import httpx


class Rest:
    """The gateway at one base URL; use it as a context manager."""

    def __init__(self, base_url: str) -> None:
        self.http = httpx.Client(base_url=base_url, timeout=60)

    def __enter__(self) -> Rest:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.http.close()

    def session(self) -> str:
        """A new Session's id."""
        return str(self.http.post("/v1/sessions", json={"title": "test"}).raise_for_status().json()["id"])

    def start(self, session: str, text: str, key: str | None = None, **body: Any) -> httpx.Response:
        """Start a Turn."""
        headers = {"Idempotency-Key": key} if key else {}
        return self.http.post(f"/v1/sessions/{session}/turns", json={"text": text, **body}, headers=headers)

    def run(self, session: str, text: str, **body: Any) -> dict[str, Any]:
        """Run a Turn to its end; returns the Turn."""
        turn = self.start(session, text, **body).raise_for_status().json()
        list(self.events(turn["id"]))
        return self.turn(turn["id"])

    def turn(self, turn: str) -> dict[str, Any]:
        """A Turn."""
        found: dict[str, Any] = self.http.get(f"/v1/turns/{turn}").raise_for_status().json()
        return found

    def events(self, turn: str, last_event_id: int | None = None) -> Iterator[dict[str, Any]]:
        """Events as they come; closing the iterator drops the connection."""
        headers = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
        with self.http.stream("GET", f"/v1/turns/{turn}/events", headers=headers) as response:
            response.raise_for_status()
            yield from sse(response)


def sse(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """The data objects of a server-sent event stream, checked against their frames."""
    frame: dict[str, str] = {}
    for line in response.iter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            frame[name] = value
        elif "data" in frame:
            data: dict[str, Any] = json.loads(frame["data"])
            assert (frame["event"], int(frame["id"])) == (data["type"], data["sequence"])
            yield data
            frame = {}
