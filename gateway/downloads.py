"""Stored files as downloads: conditional, resumable, and never shown by a browser as a page of this origin."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import grpc.aio
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.exceptions import HTTPException

from gateway.problems import http_problem
from gateway.ranges import ByteRange, parse_range

OCTETS = "application/octet-stream"


@dataclass(frozen=True)
class StoredFile:
    """A file that can be downloaded.

    Attributes:
        filename: the name to save it under.
        content_type: its media type.
        byte_size: its size.
        sha256: of its bytes, hexadecimal.
        read: starts the call that streams `length` bytes from `offset`.
    """

    filename: str
    content_type: str
    byte_size: int
    sha256: str
    read: Callable[[ByteRange], Any]


async def download(file: StoredFile, request: Request) -> Response:
    """The answer to a request for `file`: whole, one range of it, or unchanged.

    Raises:
        AioRpcError: its bytes can't be read.
    """
    headers = _headers(file)
    etag = headers["ETag"]
    if _names(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    wanted_range = request.headers.get("range")
    if (condition := request.headers.get("if-range")) is not None and condition.strip() != etag:
        wanted_range = None
    try:
        part = parse_range(wanted_range, file.byte_size)
    except ValueError as error:
        outside = HTTPException(416, f"{error}; the file has {file.byte_size} bytes")
        return http_problem(outside, request, {"Content-Range": f"bytes */{file.byte_size}"})
    wanted = part or ByteRange(0, file.byte_size, file.byte_size)
    headers["Content-Length"] = str(wanted.length)
    if part:
        headers["Content-Range"] = part.content_range
    call = file.read(wanted)
    first = await call.read()
    return StreamingResponse(_chunks(call, first), 206 if part else 200, headers)


async def _chunks(call: Any, message: Any) -> AsyncIterator[bytes]:
    try:
        while message is not grpc.aio.EOF:
            yield message.chunk
            message = await call.read()
    finally:
        call.cancel()


def _headers(file: StoredFile) -> dict[str, str]:
    return {
        # Not as the answer's media type, to which a charset would be added.
        "Content-Type": _media_type(file.content_type),
        "Accept-Ranges": "bytes",
        "ETag": f'"{file.sha256}"',
        "Cache-Control": "private, no-cache",
        "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
        "Content-Disposition": _disposition(file.filename),
    }


def _disposition(filename: str) -> str:
    """`attachment` with the name for every client: plain ASCII, and its exact form percent-encoded (RFC 6266)."""
    ascii_name = unicodedata.normalize("NFKD", filename).encode("ascii", "ignore").decode("ascii")
    safe = "".join(character if character.isalnum() or character in " ._-()+" else "_" for character in ascii_name)
    return f"attachment; filename=\"{safe.strip() or 'file'}\"; filename*=UTF-8''{quote(filename, safe='')}"


def _media_type(content_type: str) -> str:
    """A media type that can be a header's value, else the general one."""
    plain = content_type.isascii() and content_type.isprintable() and "/" in content_type
    return content_type if plain else OCTETS


def _names(header: str | None, etag: str) -> bool:
    """Whether an `If-None-Match` names `etag`, weakly or not."""
    if header is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return "*" in tags or etag in tags
