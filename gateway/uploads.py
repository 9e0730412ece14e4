"""Uploaded documents as a stream of bytes, from a raw body or from the `file` part of a multipart form.

Nothing is spooled: bytes go on as they come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import unquote

from fastapi import Request
from fleet.session.v1 import attachment_service_pb2 as pb
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from services.common.errors import FieldViolation, FleetError

MAX_FORM_BYTES = 1024 * 1024
"""Most bytes of a form beside its file: boundaries, headers, other fields."""


@dataclass(frozen=True)
class Upload:
    """A document that is being sent.

    Attributes:
        filename: its name as the client gives it.
        content_type: its media type, empty when not given.
        byte_size: its size when it is known beforehand.
        chunks: its bytes.
    """

    filename: str
    content_type: str
    byte_size: int | None
    chunks: AsyncIterator[bytes]

    def metadata(self, sha256: str) -> pb.UploadAttachmentMetadata:
        """What the session service is told before the bytes; `sha256` is empty when the client gave none."""
        made = pb.UploadAttachmentMetadata(filename=self.filename, content_type=self.content_type, sha256=sha256)
        if self.byte_size is not None:
            made.byte_size = self.byte_size
        return made


async def read_upload(request: Request) -> Upload:
    """The document in the request's body.

    Raises:
        FleetError: INVALID_ARGUMENT: no `file` part, no `X-Filename` of a raw body, or a malformed form.
    """
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    if media_type == b"multipart/form-data":
        boundary = options.get(b"boundary")
        if not boundary:
            raise _invalid("Content-Type", "multipart/form-data needs a boundary")
        return await _MultipartFile(request.stream(), boundary).open()
    filename = unquote(request.headers.get("x-filename", ""))
    if not filename:
        raise _invalid("X-Filename", "a raw body needs its file name, percent-encoded, in this header")
    length = request.headers.get("content-length", "")
    size = int(length) if length.isdigit() else None
    return Upload(filename, request.headers.get("content-type", ""), size, request.stream())


class _MultipartFile:
    """Finds the `file` part of a form while it arrives, and yields that part's bytes."""

    def __init__(self, body: AsyncIterator[bytes], boundary: bytes) -> None:
        self._body = body
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._on_part_begin,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
            },
        )
        self._headers: dict[bytes, bytes] = {}
        self._field = self._value = b""
        self._chunks: deque[bytes] = deque()
        self._filename: str | None = None
        self._content_type = ""
        self._inside = self._complete = False
        self._form_bytes = 0

    async def open(self) -> Upload:
        """Read on to the `file` part's headers."""
        while self._filename is None:
            if not await self._feed():
                raise _invalid("file", "the form has no part of this name with a filename")
        return Upload(self._filename, self._content_type, None, self._bytes())

    async def _bytes(self) -> AsyncIterator[bytes]:
        while True:
            while self._chunks:
                yield self._chunks.popleft()
            if self._complete:
                break
            if not await self._feed():
                raise _invalid("file", "the form ended in the middle of the file")
        while await self._feed():
            pass

    async def _feed(self) -> bool:
        async for data in self._body:
            if data:
                self._parse(data)
                return True
        return False

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.write(data)
        except MultipartParseError as error:
            raise _invalid("Content-Type", "the body is not a well-formed multipart form") from error
        self._form_bytes += len(data) - sum(map(len, self._chunks))
        if self._form_bytes > MAX_FORM_BYTES:
            raise _invalid("file", f"the form has more than {MAX_FORM_BYTES} bytes beside its file")

    def _on_part_begin(self) -> None:
        self._headers = {}

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""

    def _on_headers_finished(self) -> None:
        _kind, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if options.get(b"name") == b"file" and b"filename" in options:
            if self._filename is not None:
                raise _invalid("file", "the form has more than one part of this name; upload documents one by one")
            self._filename = options[b"filename"].decode("utf-8", "replace")
            self._content_type = self._headers.get(b"content-type", b"").decode("latin-1")
            self._inside = True

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._chunks.append(data[start:end])

    def _on_part_end(self) -> None:
        if self._inside:
            self._inside, self._complete = False, True


def _invalid(field: str, description: str) -> FleetError:
    return FleetError("INVALID_ARGUMENT", f"{field}: {description}", violations=[FieldViolation(field, description)])
