from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.gateway.rig import MIB, Gateway, fields_of, problem_of, running, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 8 * MIB


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """A gateway whose attachments are small, and which has none."""
    async with running(tmp_path_factory.mktemp("small"), f"storage.max_upload_bytes={LIMIT}") as made:
        yield made


def stored_files(gateway: Gateway) -> list[Path]:
    """What lies in the blob store."""
    folder = gateway.replica.policy.storage.root / "blobs"
    return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


async def nothing_stored(gateway: Gateway) -> None:
    await until(lambda: not stored_files(gateway))
    assert (await gateway.http.get("/v1/attachments")).json()["attachments"] == []


async def test_form(shared: Gateway) -> None:
    content = bytes(range(256)) * 9000
    files = {"note": (None, "text"), "file": ("ä b\u2028.bin", content, "application/x-thing")}
    response = await shared.http.post("/v1/attachments", files=files)
    found = response.json()
    assert (response.status_code, response.headers["Location"]) == (201, f"/v1/attachments/{found['id']}")
    assert found == {
        "id": found["id"],
        "name": f"attachments/{found['id']}",
        "filename": "ä b\u2028.bin",
        "content_type": "application/x-thing",
        "byte_size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "create_time": found["create_time"],
    }
    assert (await shared.http.get(f"/v1/attachments/{found['id']}")).json() == found
    assert (await shared.http.get("/v1/attachments")).json()["attachments"][0] == found
    turn = await shared.run(attachments=[found["id"]])
    assert (await shared.turn(turn))["attachments"] == [found["name"]]


async def test_raw_body_of_unknown_length(shared: Gateway) -> None:
    content = b"1,2\n" * MIB

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(content), 100_000):
            yield content[start : start + 100_000]

    digest = hashlib.sha256(content).hexdigest()
    headers = {"X-Filename": "gr%C3%BCn.csv", "Content-Type": "text/csv", "X-Content-SHA256": digest}
    found = (await shared.http.post("/v1/attachments", content=chunks(), headers=headers)).json()
    assert (found["filename"], found["content_type"], found["sha256"]) == ("grün.csv", "text/csv", digest)


@pytest.mark.parametrize(
    ("content", "headers", "code", "fields"),
    [
        (b"abc", {"X-Filename": "a", "X-Content-SHA256": "0" * 64}, "CHECKSUM_MISMATCH", []),
        (b"abc", {"X-Filename": "a", "X-Content-SHA256": "x"}, "INVALID_ARGUMENT", ["X-Content-Sha256"]),
        (b"", {"X-Filename": "a"}, "UPLOAD_INCOMPLETE", []),
        (b"abc", {}, "INVALID_ARGUMENT", ["X-Filename"]),
        (b"abc", {"X-Filename": "..%2Fa"}, "INVALID_ARGUMENT", ["filename"]),
        (b"abc", {"X-Filename": "a%0D%0AX-Evil:%201"}, "INVALID_ARGUMENT", ["filename"]),
        (b"abc", {"X-Filename": "x" * 256}, "INVALID_ARGUMENT", ["filename"]),
        (b"abc", {"X-Filename": "a", "Content-Type": "x" * 256}, "INVALID_ARGUMENT", ["Content-Type"]),
        (b"abc", {"Content-Type": "multipart/form-data"}, "INVALID_ARGUMENT", ["Content-Type"]),
        (b"abc", {"Content-Type": "multipart/form-data; boundary=b"}, "INVALID_ARGUMENT", ["Content-Type"]),
        (b"x" * (LIMIT + 1), {"X-Filename": "a"}, "ATTACHMENT_TOO_LARGE", []),
    ],
)
async def test_refused_uploads_leave_nothing(
    small: Gateway, content: bytes, headers: dict[str, str], code: str, fields: list[str]
) -> None:
    response = await small.http.post("/v1/attachments", content=content, headers=headers)
    assert fields_of(problem_of(response, 422, code)) == fields
    await nothing_stored(small)


def _part(name: str, filename: str, content: bytes) -> bytes:
    head = f'--B\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n\r\n'
    return head.encode() + content + b"\r\n"


FORM = {"Content-Type": "multipart/form-data; boundary=B"}


@pytest.mark.parametrize(
    "body",
    [
        _part("file", "a", b"one")[:-2],
        _part("file", "a", b"one") + _part("file", "b", b"two") + b"--B--\r\n",
        _part("other", "a", b"one") + b"--B--\r\n",
        _part("other", "a", b"x" * 2 * MIB) + _part("file", "a", b"one") + b"--B--\r\n",
        _part("file", "a", b"one") + _part("other", "a", b"x" * 2 * MIB) + b"--B--\r\n",
    ],
    ids=["cut", "two files", "no file", "much before", "much after"],
)
async def test_forms_that_are_refused_leave_nothing(small: Gateway, body: bytes) -> None:
    response = await small.http.post("/v1/attachments", content=body, headers=FORM)
    assert fields_of(problem_of(response, 422, "INVALID_ARGUMENT")) == ["file"]
    await nothing_stored(small)


async def test_too_large_form(small: Gateway) -> None:
    response = await small.http.post("/v1/attachments", files={"file": ("a", b"x" * (LIMIT + 1))})
    problem_of(response, 422, "ATTACHMENT_TOO_LARGE")
    await nothing_stored(small)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"X_Filename": "a", "Content_Length": LIMIT + 1}, "ATTACHMENT_TOO_LARGE"),
        ({"X_Filename": "a%2Fb", "Content_Length": LIMIT}, "INVALID_ARGUMENT"),
        ({"Content_Length": LIMIT}, "INVALID_ARGUMENT"),
    ],
)
async def test_refusal_is_answered_before_the_body_has_come(
    small: Gateway, headers: dict[str, object], code: str
) -> None:
    async with small.socket() as (reader, writer), asyncio.timeout(5):
        writer.write(small.head("POST", "/v1/attachments", **headers) + b"first bytes")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 422 ")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        assert code.encode() in await reader.readexactly(length)


async def test_too_large_body_is_refused_while_it_comes(small: Gateway) -> None:
    async with small.socket() as (reader, writer), asyncio.timeout(10):
        writer.write(small.head("POST", "/v1/attachments", X_Filename="a", Transfer_Encoding="chunked"))
        answer = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
        sent = 0
        while not answer.done():
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)
            sent += 65_536
        assert (await answer).startswith(b"HTTP/1.1 422 ")
        assert sent < 100 * LIMIT
    await nothing_stored(small)


def _aborted_bodies() -> Iterator[tuple[str, dict[str, object], bytes]]:
    yield "raw", {"X_Filename": "a", "Content_Length": 4 * MIB}, b"x" * MIB
    yield "chunked", {"X_Filename": "a", "Transfer_Encoding": "chunked"}, b"100000\r\n" + b"x" * MIB + b"\r\n"
    form = {"Content_Type": "multipart/form-data; boundary=B", "Content_Length": 4 * MIB}
    yield "form", form, _part("file", "a", b"x" * MIB)


@pytest.mark.parametrize(("headers", "body"), [each[1:] for each in _aborted_bodies()], ids=["raw", "chunked", "form"])
async def test_upload_broken_off_leaves_nothing(small: Gateway, headers: dict[str, object], body: bytes) -> None:
    await small.http.get("/healthz")
    tasks = len(asyncio.all_tasks())
    async with small.socket() as (_, writer):
        writer.write(small.head("POST", "/v1/attachments", **headers) + body)
        await writer.drain()
        await until(lambda: len(asyncio.all_tasks()) > tasks)
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    await nothing_stored(small)


async def test_uploads_at_once(shared: Gateway) -> None:
    contents = [bytes([number]) * MIB for number in range(6)]
    posts = [shared.http.post("/v1/attachments", files={"file": (f"{n}", c)}) for n, c in enumerate(contents)]
    answers = await asyncio.gather(*posts)
    assert [a.json()["sha256"] for a in answers] == [hashlib.sha256(c).hexdigest() for c in contents]


async def test_every_refusal_while_sending_tells_its_reason(small: Gateway) -> None:
    # The service's refusal and the messages under way cross each other, now so, now so.
    async def post(number: int) -> None:
        name = "a" if number % 2 else "a%2Fb"
        content = b"x" * (LIMIT + 1) if number % 2 else b"x" * MIB
        response = await small.http.post("/v1/attachments", content=content, headers={"X-Filename": name})
        problem_of(response, 422, "ATTACHMENT_TOO_LARGE" if number % 2 else "INVALID_ARGUMENT")

    for _ in range(4):
        await asyncio.gather(*(post(number) for number in range(10)))
    await nothing_stored(small)
