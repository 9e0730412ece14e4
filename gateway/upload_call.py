"""Sends an upload on to the session service while it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import grpc.aio
from fleet.session.v1 import attachment_service_pb2 as pb

from gateway.uploads import Upload

if TYPE_CHECKING:
    from fleet.session.v1.attachment_service_pb2_grpc import AttachmentServiceAsyncStub

CHUNK_BYTES = 262_144
"""Bytes of a document in one message to the session service."""


async def store(attachments: AttachmentServiceAsyncStub, upload: Upload, sha256: str) -> pb.Attachment:
    """Store a document.

    A refusal of the session service is answered at once, however much of the body is still to come; an upload whose
    client goes, or whose body is malformed, is given up, which leaves nothing behind.

    Raises:
        AioRpcError: the session service refused.
        FleetError: the body is malformed.
        ClientDisconnect: the client has gone.
    """
    call: Any = attachments.UploadAttachment()
    sending = asyncio.create_task(_send(call, upload, sha256))
    answering = asyncio.ensure_future(_answer(call))
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


async def _answer(call: Any) -> pb.Attachment:
    answer: pb.Attachment = await call
    return answer


async def _send(call: Any, upload: Upload, sha256: str) -> None:
    async for message in _messages(upload, sha256):
        try:
            await call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The call has ended; its answer says why.
            return
    await call.done_writing()


async def _messages(upload: Upload, sha256: str) -> AsyncIterator[pb.UploadAttachmentRequest]:
    metadata = pb.UploadAttachmentMetadata(filename=upload.filename, content_type=upload.content_type, sha256=sha256)
    if upload.byte_size is not None:
        metadata.byte_size = upload.byte_size
    yield pb.UploadAttachmentRequest(metadata=metadata)
    async for data in upload.chunks:
        for start in range(0, len(data), CHUNK_BYTES):
            yield pb.UploadAttachmentRequest(chunk=data[start : start + CHUNK_BYTES])
