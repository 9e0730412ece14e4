"""Attachments over REST: uploads and downloads are streamed through."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fleet.session.v1 import attachment_service_pb2 as pb

from gateway.backends import BackendsDep
from gateway.downloads import StoredFile, download
from gateway.names import Id, attachment_name
from gateway.openapi import Responses, answer, refusals
from gateway.pages import PageSize, PageToken
from gateway.ranges import ByteRange
from gateway.replies import made, reply
from gateway.uploads import read_upload
from services.common.upload_call import store

router = APIRouter(prefix="/v1/attachments", tags=["attachments"])

_BYTES = {"schema": {"type": "string", "format": "binary"}}
_FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {"type": "string", "format": "binary"}},
}
_UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {"multipart/form-data": {"schema": _FORM}, "application/octet-stream": _BYTES},
    }
}
_CONTENT: Responses = {
    200: {"description": "The whole file.", "content": {"*/*": _BYTES}},
    206: {"description": "The range that was asked for.", "content": {"*/*": _BYTES}},
    304: {"description": "The file is the one that `If-None-Match` names."},
}
_UNKNOWN = "There is no such attachment."


@router.post(
    "",
    status_code=201,
    openapi_extra=_UPLOAD_BODY,
    responses={**answer(201, "The attachment.", "Attachment"), **refusals()},
)
async def upload_attachment(
    services: BackendsDep,
    request: Request,
    x_filename: Annotated[str, Header(max_length=1024, description="File name of a raw body, percent-encoded.")] = "",
    x_content_sha256: Annotated[str, Header(pattern="^([0-9a-f]{64})?$", description="Checked when given.")] = "",
) -> Response:
    """Upload a document: a multipart form with one `file`, or a raw body with `X-Filename`."""
    upload = await read_upload(request)
    stored = await store(services.attachments, upload.metadata(x_content_sha256), upload.chunks)
    return made(stored, "/v1/attachments")


@router.get("", responses={**answer(200, "A page.", "AttachmentList"), **refusals()})
async def list_attachments(services: BackendsDep, page_size: PageSize = 0, page_token: PageToken = "") -> Response:
    """List the workspace's attachments, latest first."""
    request = pb.ListAttachmentsRequest(page_size=page_size, page_token=page_token)
    return reply(await services.attachments.ListAttachments(request))


@router.get("/{attachment_id}", responses={**answer(200, "The attachment.", "Attachment"), **refusals(s404=_UNKNOWN)})
async def get_attachment(attachment_id: Id, services: BackendsDep) -> Response:
    """Return an attachment's metadata."""
    request = pb.GetAttachmentRequest(name=attachment_name(attachment_id))
    return reply(await services.attachments.GetAttachment(request))


@router.delete(
    "/{attachment_id}",
    status_code=204,
    responses=refusals(s404=_UNKNOWN, s409="A running Turn uses it."),
)
async def delete_attachment(attachment_id: Id, services: BackendsDep) -> Response:
    """Delete an attachment and its bytes."""
    await services.attachments.DeleteAttachment(pb.DeleteAttachmentRequest(name=attachment_name(attachment_id)))
    return Response(status_code=204)


@router.get(
    "/{attachment_id}/content",
    responses={**_CONTENT, **refusals(s404=_UNKNOWN, s416="The range lies outside the file.")},
)
async def download_attachment(
    attachment_id: Id,
    services: BackendsDep,
    request: Request,
    range_header: Annotated[str | None, Header(alias="Range", description="One range of bytes.")] = None,
    if_range: Annotated[str | None, Header(description="The ETag that the range belongs to.")] = None,
    if_none_match: Annotated[str | None, Header(description="ETags that the client has.")] = None,
) -> Response:
    """Return an attachment's bytes, whole or one range of them."""
    name = attachment_name(attachment_id)
    found = await services.attachments.GetAttachment(pb.GetAttachmentRequest(name=name))

    def read(wanted: ByteRange) -> object:
        wish = pb.DownloadAttachmentRequest(name=name, offset=wanted.offset, limit=wanted.length)
        return services.attachments.DownloadAttachment(wish)

    file = StoredFile(found.filename, found.content_type, found.byte_size, found.sha256, read)
    return await download(file, request)
