"""A client of the gateway that only does what a Turn needs."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Self

import httpx

_SECONDS = 180.0


class RestClient:
    """A gateway at one base URL; use it as a context manager."""

    def __init__(self, base_url: str) -> None:
        self._http = httpx.Client(base_url=base_url, timeout=_SECONDS)

    def turn(self, session: str, text: str) -> str:
        """Run a Turn of the Session with this id to its end over one event stream; returns the answer.

        Raises:
            RuntimeError: it did not complete.
        """
        headers = {"Accept": "text/event-stream"}
        path = f"/v1/sessions/{session}/turns"
        answer, kind = "", ""
        with self._http.stream("POST", path, json={"text": text}, headers=headers) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if line.startswith("event: "):
                    kind = line[7:]
                elif kind == "answer" and line.startswith("data: "):
                    answer = json.loads(line[6:])["text"]
        if kind != "turn.completed":
            raise RuntimeError(f"the Turn ended with {kind}")
        return answer

    def replay(self, turn: str) -> int:
        """Read the event stream of a Turn that has ended; returns how many events there were."""
        with self._http.stream("GET", f"/v1/turns/{turn.rpartition('/')[2]}/events") as response:
            response.raise_for_status()
            return response.read().count(b"\ndata: ")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
