"""Attachments over REST: uploads and downloads are streamed through."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse
from fleet.session.v1 import attachment_service_pb2 as pb

from gateway.backends import Backends, BackendsDep
from gateway.names import Id, attachment_name
from gateway.ranges import ByteRange, parse_range
from gateway.routes.sessions import PageSize, PageToken
from gateway.uploads import Upload, read_upload
from services.common.proto_json import to_json

router = APIRouter(prefix="/v1/attachments", tags=["attachments"])

CHUNK_BYTES = 262_144
"""Bytes of a document in one message to the session service."""

_UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post("", status_code=201, openapi_extra=_UPLOAD_BODY)
async def upload_attachment(
    services: BackendsDep,
    request: Request,
    response: Response,
    x_filename: Annotated[str, Header(max_length=1024, description="File name of a raw body, percent-encoded.")] = "",
    x_content_sha256: Annotated[str, Header(pattern="^([0-9a-f]{64})?$", description="Checked when given.")] = "",
) -> dict[str, Any]:
    """Upload a document: a multipart form with one `file`, or a raw body with `X-Filename`."""
    upload = await read_upload(request)
    made = to_json(await services.attachments.UploadAttachment(_messages(upload, x_content_sha256)))
    response.headers["Location"] = f"/v1/attachments/{made['id']}"
    return made


@router.get("")
async def list_attachments(
    services: BackendsDep, page_size: PageSize = 0, page_token: PageToken = ""
) -> dict[str, Any]:
    """List the workspace's attachments, latest first."""
    request = pb.ListAttachmentsRequest(page_size=page_size, page_token=page_token)
    return to_json(await services.attachments.ListAttachments(request))


@router.get("/{attachment_id}")
async def get_attachment(attachment_id: Id, services: BackendsDep) -> dict[str, Any]:
    """Return an attachment's metadata."""
    request = pb.GetAttachmentRequest(name=attachment_name(attachment_id))
    return to_json(await services.attachments.GetAttachment(request))


@router.delete("/{attachment_id}", status_code=204)
async def delete_attachment(attachment_id: Id, services: BackendsDep) -> None:
    """Delete an attachment and its bytes."""
    await services.attachments.DeleteAttachment(pb.DeleteAttachmentRequest(name=attachment_name(attachment_id)))


@router.get("/{attachment_id}/content", response_class=StreamingResponse)
async def download_attachment(
    attachment_id: Id,
    services: BackendsDep,
    range_header: Annotated[str | None, Header(alias="Range", description="One range of bytes.")] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Return an attachment's bytes, whole or one range of them."""
    name = attachment_name(attachment_id)
    found = await services.attachments.GetAttachment(pb.GetAttachmentRequest(name=name))
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": f'"{found.sha256}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.filename, safe='')}",
    }
    if if_none_match and headers["ETag"] in if_none_match:
        return Response(status_code=304, headers=headers)
    try:
        part = parse_range(range_header, found.byte_size)
    except ValueError:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{found.byte_size}"})
    wanted = part or ByteRange(0, found.byte_size, found.byte_size)
    headers["Content-Length"] = str(wanted.length)
    if part:
        headers["Content-Range"] = part.content_range
    body = _chunks(services, name, wanted)
    media_type = found.content_type or "application/octet-stream"
    return StreamingResponse(body, 206 if part else 200, headers, media_type)


async def _messages(upload: Upload, sha256: str) -> AsyncIterator[pb.UploadAttachmentRequest]:
    metadata = pb.UploadAttachmentMetadata(filename=upload.filename, content_type=upload.content_type, sha256=sha256)
    if upload.byte_size is not None:
        metadata.byte_size = upload.byte_size
    yield pb.UploadAttachmentRequest(metadata=metadata)
    async for data in upload.chunks:
        for start in range(0, len(data), CHUNK_BYTES):
            yield pb.UploadAttachmentRequest(chunk=data[start : start + CHUNK_BYTES])


async def _chunks(services: Backends, name: str, wanted: ByteRange) -> AsyncIterator[bytes]:
    request = pb.DownloadAttachmentRequest(name=name, offset=wanted.offset, limit=wanted.length)
    call = services.attachments.DownloadAttachment(request)
    try:
        async for message in call:
            yield message.chunk
    finally:
        call.cancel()
