"""Sends a document to the session service, and tells the service's own reason when it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from fleet.session.v1 import attachment_service_pb2 as pb

if TYPE_CHECKING:
    from fleet.session.v1.attachment_service_pb2_grpc import AttachmentServiceAsyncStub

CHUNK_BYTES = 262_144
"""Bytes of a document in one message to the session service."""

STATUS_SECONDS = 2.0
"""How long the status of a call whose messages can't be sent is waited for; it has usually come already."""

_SENDING_FAILED = "Internal error from Core"


async def store(
    attachments: AttachmentServiceAsyncStub, metadata: pb.UploadAttachmentMetadata, chunks: AsyncIterator[bytes]
) -> pb.Attachment:
    """Store the document that `metadata` describes and whose bytes are `chunks`, of any size each.

    A refusal of the session service is answered at once, however much is still to come; when the caller is cancelled
    or `chunks` fails, the upload is given up, which leaves nothing behind.

    Raises:
        AioRpcError: the session service refused.
    """
    call: Any = attachments.UploadAttachment()
    sending = asyncio.create_task(_send(call, metadata, chunks))
    answering = asyncio.create_task(_Answer(call).wait())
    try:
        await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            await sending
        return await answering
    finally:
        sending.cancel()
        answering.cancel()
        call.cancel()
        await asyncio.gather(sending, answering, return_exceptions=True)


class _Answer:
    """What the session service answers to an upload.

    When the service ends the call while a message is being sent, gRPC reports that the message couldn't be sent, before
    or after the status that the service gave; the latter is what counts, so it is noted when it comes.
    """

    def __init__(self, call: Any) -> None:
        self._call = call
        self._refusal: asyncio.Future[grpc.aio.AioRpcError] = asyncio.get_running_loop().create_future()
        call.add_done_callback(self._note)

    async def wait(self) -> pb.Attachment:
        """The stored document's metadata; raises what the session service refused with."""
        try:
            answer: pb.Attachment = await self._call
        except grpc.aio.AioRpcError as error:
            if error.details() != _SENDING_FAILED:
                raise
            await asyncio.wait({self._refusal}, timeout=STATUS_SECONDS)
            if self._refusal.done():
                raise self._refusal.result() from error
            raise
        return answer

    def _note(self, call: Any) -> None:
        code, details, trailing = _at_once(call.code()), _at_once(call.details()), _at_once(call.trailing_metadata())
        if code is not grpc.StatusCode.OK and details != _SENDING_FAILED and not self._refusal.done():
            self._refusal.set_result(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details))


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that has nothing to wait for, as those that read a finished call's status."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return finished.value
    coroutine.close()
    return None


async def _send(call: Any, metadata: pb.UploadAttachmentMetadata, chunks: AsyncIterator[bytes]) -> None:
    async for message in _messages(metadata, chunks):
        try:
            await call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The call has ended; its answer says why.
            return
    with suppress(grpc.aio.InternalError):
        await call.done_writing()


async def _messages(
    metadata: pb.UploadAttachmentMetadata, chunks: AsyncIterator[bytes]
) -> AsyncIterator[pb.UploadAttachmentRequest]:
    yield pb.UploadAttachmentRequest(metadata=metadata)
    async for data in chunks:
        for start in range(0, len(data), CHUNK_BYTES):
            yield pb.UploadAttachmentRequest(chunk=data[start : start + CHUNK_BYTES])
