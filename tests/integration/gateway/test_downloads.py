from __future__ import annotations

import asyncio
from email.message import Message
from urllib.parse import quote

import pytest

from tests.integration.gateway.rig import MIB, Gateway, problem_of, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTENT = bytes(range(256)) * 4096


async def _upload(shared: Gateway, filename: str = "a.bin", content_type: str = "text/html") -> str:
    headers = {"X-Filename": quote(filename), "Content-Type": content_type}
    response = await shared.http.post("/v1/attachments", content=CONTENT, headers=headers)
    return f"/v1/attachments/{response.raise_for_status().json()['id']}/content"


async def test_whole_and_unchanged(shared: Gateway) -> None:
    path = await _upload(shared)
    whole = await shared.http.get(path)
    assert (whole.status_code, whole.content) == (200, CONTENT)
    assert whole.headers["Content-Length"] == str(len(CONTENT))
    assert whole.headers["Content-Type"] == "text/html"
    assert whole.headers["Accept-Ranges"] == "bytes"
    etag = whole.headers["ETag"]
    for tags in (etag, f'"other", W/{etag}', "*"):
        same = await shared.http.get(path, headers={"If-None-Match": tags})
        assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", etag)
    assert (await shared.http.get(path, headers={"If-None-Match": '"other"'})).status_code == 200
    head = await shared.http.head(path)
    assert (head.status_code, head.headers["Content-Length"], head.content) == (200, str(len(CONTENT)), b"")


async def test_ranges(shared: Gateway) -> None:
    path = await _upload(shared)
    size = len(CONTENT)
    for header, first, end in (
        ("bytes=0-0", 0, 1),
        ("bytes=1000-1999", 1000, 2000),
        (f"bytes={size - 5}-", size - 5, size),
        ("bytes=-7", size - 7, size),
        (f"bytes=1-{size * 2}", 1, size),
    ):
        part = await shared.http.get(path, headers={"Range": header})
        assert (part.status_code, part.content) == (206, CONTENT[first:end])
        assert part.headers["Content-Range"] == f"bytes {first}-{end - 1}/{size}"
    for header in (f"bytes={size}-", "bytes=-0"):
        outside = await shared.http.get(path, headers={"Range": header})
        problem_of(outside, 416, "RANGE_NOT_SATISFIABLE")
        assert outside.headers["Content-Range"] == f"bytes */{size}"
    for ignored in ("bytes=9-2", "bytes=0-1,5-6", "lines=1-2", "x"):
        assert (await shared.http.get(path, headers={"Range": ignored})).status_code == 200
    etag = (await shared.http.head(path)).headers["ETag"]
    for condition, status in ((etag, 206), ('"other"', 200), ("Wed, 21 Oct 2015 07:28:00 GMT", 200)):
        headers = {"Range": "bytes=0-9", "If-Range": condition}
        assert (await shared.http.get(path, headers=headers)).status_code == status


@pytest.mark.parametrize(
    ("filename", "plain"),
    [
        ("report.pdf", "report.pdf"),
        ('a"; filename="evil.html', "a__ filename__evil.html"),
        ("Bericht über.pdf", "Bericht uber.pdf"),
        ("報告", "file"),
        ("50%; x=1.txt", "50__ x_1.txt"),
        ("a\u2028b", "ab"),
    ],
)
async def test_names_stay_inside_their_header(shared: Gateway, filename: str, plain: str) -> None:
    response = await shared.http.get(await _upload(shared, filename))
    header = response.headers["Content-Disposition"]
    assert header == f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
    parsed = Message()
    parsed["Content-Disposition"] = header
    assert parsed.get_content_disposition() == "attachment"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("application/json", "application/json"),
        ("", "application/octet-stream"),
        ("nonsense", "application/octet-stream"),
    ],
)
async def test_media_types(shared: Gateway, given: str, sent: str) -> None:
    response = await shared.http.get(await _upload(shared, content_type=given))
    assert response.headers["Content-Type"] == sent


async def test_download_broken_off_frees_everything(shared: Gateway) -> None:
    headers = {"X-Filename": "large"}
    made = await shared.http.post("/v1/attachments", content=b"x" * (32 * MIB), headers=headers)
    path = f"/v1/attachments/{made.json()['id']}/content"
    tasks = len(asyncio.all_tasks())
    async with shared.socket() as (reader, writer):
        writer.write(shared.head("GET", path))
        await reader.readexactly(MIB)
        assert len(asyncio.all_tasks()) > tasks
    await until(lambda: len(asyncio.all_tasks()) <= tasks)


async def test_bytes_that_are_lost(shared: Gateway) -> None:
    path = await _upload(shared)
    for file in (shared.replica.policy.storage.root / "blobs").rglob("*"):
        if file.is_file():
            file.unlink()
    problem_of(await shared.http.get(path), 500, "DATA_CORRUPTED")
