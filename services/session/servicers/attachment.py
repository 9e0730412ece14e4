"""fleet.session.v1.AttachmentService over the use cases: translation, nothing else."""

# ruff: noqa: N802  The contract names the methods.

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc
from fleet.session.v1 import attachment_service_pb2 as pb
from fleet.session.v1 import attachment_service_pb2_grpc
from google.protobuf.empty_pb2 import Empty

from services.common.request_context import current_principal
from services.session import names
from services.session.attachments.service import AttachmentService, Declared
from services.session.refusals import invalid
from services.session.servicers import translate

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class AttachmentServicer(attachment_service_pb2_grpc.AttachmentServiceServicer):
    """Immutable documents of a workspace."""

    def __init__(self, attachments: AttachmentService) -> None:
        self._attachments = attachments

    async def UploadAttachment(
        self, request_iterator: AsyncIterator[pb.UploadAttachmentRequest], context: Context
    ) -> pb.Attachment:
        """Take a document: metadata, then bytes."""
        requests = aiter(request_iterator)
        first = await anext(requests, pb.UploadAttachmentRequest())
        if first.WhichOneof("part") != "metadata":
            raise invalid("metadata", "must be in the first message of an upload")
        meta = first.metadata
        declared = Declared(
            filename=meta.filename,
            content_type=meta.content_type,
            byte_size=meta.byte_size if meta.HasField("byte_size") else None,
            sha256=meta.sha256,
        )
        stored = await self._attachments.upload(current_principal().workspace, declared, _chunks(requests))
        return translate.attachment_message(stored)

    async def GetAttachment(self, request: pb.GetAttachmentRequest, context: Context) -> pb.Attachment:
        """Return an attachment's metadata."""
        found = await self._attachments.get(current_principal().workspace, names.attachment_id(request.name))
        return translate.attachment_message(found)

    async def ListAttachments(self, request: pb.ListAttachmentsRequest, context: Context) -> pb.ListAttachmentsResponse:
        """List the workspace's attachments."""
        page = await self._attachments.page(current_principal().workspace, request.page_size, request.page_token)
        messages = [translate.attachment_message(each) for each in page.items]
        return pb.ListAttachmentsResponse(attachments=messages, next_page_token=page.next_token)

    async def DeleteAttachment(self, request: pb.DeleteAttachmentRequest, context: Context) -> Empty:
        """Delete an attachment and its bytes."""
        await self._attachments.delete(current_principal().workspace, names.attachment_id(request.name))
        return Empty()

    async def DownloadAttachment(
        self, request: pb.DownloadAttachmentRequest, context: Context
    ) -> AsyncIterator[pb.DownloadAttachmentResponse]:
        """Stream an attachment's bytes."""
        attachment_id = names.attachment_id(request.name)
        workspace = current_principal().workspace
        async for chunk in self._attachments.download(workspace, attachment_id, request.offset, request.limit):
            yield pb.DownloadAttachmentResponse(chunk=chunk)


async def _chunks(requests: AsyncIterator[pb.UploadAttachmentRequest]) -> AsyncIterator[bytes]:
    async for request in requests:
        if request.WhichOneof("part") != "chunk":
            raise invalid("chunk", "must be in every message of an upload after the first")
        if request.chunk:
            yield request.chunk
