"""A client of the session service that only does what a Turn needs."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self
from uuid import uuid4

import grpc
from fleet.session.v1 import attachment_service_pb2, session_service_pb2
from fleet.session.v1.attachment_service_pb2_grpc import AttachmentServiceStub
from fleet.session.v1.session_service_pb2_grpc import SessionServiceStub

_CHUNK_BYTES = 262_144
_SECONDS = 180.0


class GrpcClient:
    """A session service at one address, for any number of threads; use it as a context manager."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._sessions = SessionServiceStub(self._channel)
        self._attachments = AttachmentServiceStub(self._channel)

    def session(self) -> str:
        """Make a Session; returns its name."""
        return self._sessions.CreateSession(session_service_pb2.CreateSessionRequest()).name

    def turn(self, session: str, text: str, attachments: tuple[str, ...] = ()) -> tuple[str, str]:
        """Run a Turn to its end over one stream; returns its name and the answer.

        Raises:
            RuntimeError: it did not complete.
        """
        request = session_service_pb2.RunTurnRequest(
            session=session, request_id=uuid4().hex, text=text, attachments=attachments
        )
        answer = ""
        for batch in self._sessions.RunTurn(request, timeout=_SECONDS):
            for event in batch.events:
                if event.HasField("answer"):
                    answer = event.answer.text
        if not event.HasField("turn_completed"):
            raise RuntimeError(f"the Turn ended otherwise: {event}")
        return event.turn, answer

    def replay(self, turn: str) -> int:
        """Read all events of a Turn that has ended; returns how many."""
        request = session_service_pb2.WatchTurnRequest(turn=turn)
        return sum(len(batch.events) for batch in self._sessions.WatchTurn(request, timeout=_SECONDS))

    def upload(self, content: bytes) -> str:
        """Upload a document; returns its name."""
        return self._attachments.UploadAttachment(_messages(content), timeout=_SECONDS).name

    def delete(self, session: str) -> None:
        """Delete a Session and what lives for it."""
        self._sessions.DeleteSession(session_service_pb2.DeleteSessionRequest(name=session))

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _messages(content: bytes) -> Iterator[attachment_service_pb2.UploadAttachmentRequest]:
    metadata = attachment_service_pb2.UploadAttachmentMetadata(
        filename="document.txt", content_type="text/plain", byte_size=len(content)
    )
    yield attachment_service_pb2.UploadAttachmentRequest(metadata=metadata)
    for begin in range(0, len(content), _CHUNK_BYTES):
        yield attachment_service_pb2.UploadAttachmentRequest(chunk=content[begin : begin + _CHUNK_BYTES])
