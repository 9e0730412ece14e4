"""A Turn's events from the session service, over as many calls as that takes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from fleet.session.v1.session_service_pb2 import RunTurnRequest, WatchTurnRequest
from fleet.session.v1.turn_event_pb2 import TurnEventBatch

from services.common.event_json import TERMINAL, event_type

if TYPE_CHECKING:
    from fleet.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub

RESUME_SECONDS = 60.0
"""How long a lost session service is waited for."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_LOST = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})


class TurnWatch:
    """Reads one Turn's events in order, each once.

    Attributes:
        turn: the Turn's name; empty until the first event of a Turn that was just started.
        ended: whether the Turn's last event was read.
        resumes: whether a lost session service is waited for, else its loss is raised.
    """

    def __init__(self, sessions: SessionServiceAsyncStub, call: Any, turn: str = "", seen: int = 0) -> None:
        self._sessions = sessions
        self._call = call
        self._seen = seen
        self.turn = turn
        self.ended = False
        self.resumes = False

    @classmethod
    def run(cls, sessions: SessionServiceAsyncStub, request: RunTurnRequest) -> TurnWatch:
        """Start a Turn, or attach to the one that the request id belongs to."""
        return cls(sessions, sessions.RunTurn(request))

    @classmethod
    def attach(cls, sessions: SessionServiceAsyncStub, request: WatchTurnRequest) -> TurnWatch:
        """Watch a Turn."""
        return cls(sessions, sessions.WatchTurn(request), request.turn, request.after_sequence)

    async def read(self) -> TurnEventBatch | None:
        """The next events, or None when there are no more.

        Raises:
            AioRpcError: the session service refused, or was lost where its loss isn't waited out.
            TimeoutError: it was lost and didn't come back.
        """
        try:
            return await self._read()
        except grpc.aio.AioRpcError as error:
            if error.code() not in _LOST or not self.resumes or not self.turn:
                raise
        async with asyncio.timeout(RESUME_SECONDS):
            return await self._read_again()

    def close(self) -> None:
        """End the call."""
        self._call.cancel()

    async def _read(self) -> TurnEventBatch | None:
        batch = await self._call.read()
        if batch is grpc.aio.EOF:
            return None
        found: TurnEventBatch = batch
        if found.events:
            last = found.events[-1]
            self.turn, self._seen = last.turn, last.sequence
            self.ended = event_type(last) in TERMINAL
        return found

    async def _read_again(self) -> TurnEventBatch | None:
        pause = _FIRST_PAUSE
        while True:
            self._call.cancel()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            request = WatchTurnRequest(turn=self.turn, after_sequence=self._seen)
            self._call = self._sessions.WatchTurn(request, wait_for_ready=True)
            try:
                return await self._read()
            except grpc.aio.AioRpcError as error:
                if error.code() not in _LOST:
                    raise
