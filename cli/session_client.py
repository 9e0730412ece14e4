"""What the commands ask of the session service."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self
from uuid import uuid4

import grpc
import grpc.aio
from fleet.session.v1 import attachment_service_pb2, session_pb2, session_service_pb2, turn_pb2
from fleet.session.v1.attachment_service_pb2_grpc import AttachmentServiceStub
from fleet.session.v1.session_service_pb2_grpc import SessionServiceStub
from fleet.session.v1.turn_event_pb2 import TurnEvent, TurnEventBatch
from google.protobuf.duration_pb2 import Duration

from services.common.channel import open_channel
from services.common.errors import FleetError
from services.common.upload_call import CHUNK_BYTES, store

MAX_RESUMES = 5
"""How often a broken event stream is picked up again."""


class SessionClient:
    """A session service at one address; use it as an async context manager."""

    def __init__(self, address: str) -> None:
        self._channel = open_channel(address, service="session", tokens=None)
        self._sessions = SessionServiceStub(self._channel)
        self._attachments = AttachmentServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        """Use the channel."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the channel."""
        await self._channel.close()

    async def create_session(self, title: str) -> str:
        """Make a Session; returns its name."""
        request = session_service_pb2.CreateSessionRequest(session=session_pb2.Session(title=title[:255]))
        return (await self._sessions.CreateSession(request)).name

    async def upload(self, path: Path) -> str:
        """Upload a document; returns its name.

        Raises:
            AioRpcError: the session service refused it.
            FleetError: the file can't be read.
        """
        try:
            with _opened(path) as file:
                metadata = await asyncio.to_thread(_metadata, path.name, file)
                return (await store(self._attachments, metadata, _chunks(file))).name
        except OSError as error:
            raise FleetError("INVALID_ARGUMENT", f"{path.name}: can't be read: {error.strerror}") from error

    async def run_turn(
        self, session: str, text: str, attachments: list[str], timeout_seconds: float | None
    ) -> AsyncIterator[TurnEvent]:
        """Run a Turn and yield its events to the last; a broken stream is picked up where it broke."""
        request = session_service_pb2.RunTurnRequest(
            session=session,
            request_id=uuid4().hex,
            text=text,
            attachments=attachments,
            on_disconnect=turn_pb2.ON_DISCONNECT_CONTINUE,
        )
        if timeout_seconds is not None:
            request.timeout.CopyFrom(Duration())
            request.timeout.FromNanoseconds(int(timeout_seconds * 1e9))
        call: grpc.aio.UnaryStreamCall[Any, TurnEventBatch] = self._sessions.RunTurn(request)
        turn, seen = "", 0
        for resumes in range(MAX_RESUMES + 1):
            try:
                async for event in _events(call):
                    turn, seen = event.turn, event.sequence
                    yield event
                return
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or not turn or resumes == MAX_RESUMES:
                    raise
            call = self._sessions.WatchTurn(session_service_pb2.WatchTurnRequest(turn=turn, after_sequence=seen))

    async def cancel_turn(self, turn: str) -> None:
        """Cancel a Turn."""
        await self._sessions.CancelTurn(session_service_pb2.CancelTurnRequest(name=turn))


async def _events(call: grpc.aio.UnaryStreamCall[Any, TurnEventBatch]) -> AsyncIterator[TurnEvent]:
    try:
        async for batch in call:
            for event in batch.events:
                yield event
    finally:
        call.cancel()


def _opened(path: Path) -> BinaryIO:
    return path.open("rb")


def _metadata(name: str, file: BinaryIO) -> attachment_service_pb2.UploadAttachmentMetadata:
    digest = hashlib.sha256()
    while data := file.read(CHUNK_BYTES):
        digest.update(data)
    size = file.tell()
    file.seek(0)
    return attachment_service_pb2.UploadAttachmentMetadata(
        filename=name,
        content_type=mimetypes.guess_type(name)[0] or "application/octet-stream",
        byte_size=size,
        sha256=digest.hexdigest(),
    )


async def _chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    while data := await asyncio.to_thread(file.read, CHUNK_BYTES):
        yield data
