from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from gateway.uploads import read_upload
from services.common.errors import FleetError


def _request(body: bytes, headers: dict[str, str], sizes: list[int]) -> Request:
    pieces: list[bytes] = []
    rest = body
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    pieces.append(rest)
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, object]:
        return messages.pop(0)

    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": encoded, "query_string": b""}, receive)


async def _read(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


def _form(content: bytes, filename: str = "a.txt", before: bytes = b"", after: bytes = b"") -> bytes:
    head = (
        f'--B\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\nContent-Type: text/plain\r\n\r\n'
    )
    return before + head.encode() + content + b"\r\n" + after + b"--B--\r\n"


MULTIPART = {"Content-Type": "multipart/form-data; boundary=B"}
OTHER = b'--B\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n'


@given(st.binary(max_size=400).filter(lambda data: b"--B" not in data), st.lists(st.integers(0, 60), max_size=12))
async def test_multipart_bytes_arrive_however_the_body_is_cut(content: bytes, sizes: list[int]) -> None:
    upload = await read_upload(_request(_form(content, before=OTHER, after=OTHER), MULTIPART, sizes))
    assert (upload.filename, upload.content_type) == ("a.txt", "text/plain")
    assert await _read(upload.chunks) == content


async def test_raw_body_with_its_name() -> None:
    headers = {"X-Filename": "gr%C3%BCn.csv", "Content-Type": "text/csv", "Content-Length": "3"}
    upload = await read_upload(_request(b"1,2", headers, [1]))
    assert (upload.filename, upload.content_type, upload.byte_size) == ("grün.csv", "text/csv", 3)
    assert await _read(upload.chunks) == b"1,2"


@pytest.mark.parametrize(
    ("body", "headers", "field"),
    [
        (b"x", {}, "X-Filename"),
        (b"x", {"Content-Type": "multipart/form-data"}, "Content-Type"),
        (OTHER + b"--B--\r\n", MULTIPART, "file"),
        (b"no form at all", MULTIPART, "Content-Type"),
        (b'--B\r\nContent-Disposition: form-data; name="file"; filename="' + b"a" * 9000, MULTIPART, "Content-Type"),
    ],
)
async def test_malformed_uploads_name_the_field(body: bytes, headers: dict[str, str], field: str) -> None:
    with pytest.raises(FleetError) as caught:
        await read_upload(_request(body, headers, []))
    assert caught.value.reason == "INVALID_ARGUMENT"
    assert [violation.field for violation in caught.value.violations] == [field]


async def test_truncated_form_fails_while_it_is_read() -> None:
    upload = await read_upload(_request(_form(b"content")[:-12], MULTIPART, []))
    with pytest.raises(FleetError, match="ended in the middle"):
        await _read(upload.chunks)
