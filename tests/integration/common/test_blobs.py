"""Blobs in a folder and in memory: whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from config.problem import ConfigError
from services.common.blobs import CHUNK_BYTES, BlobStore
from services.common.errors import FleetError

MEBIBYTE = 1024 * 1024


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return BlobStore((tmp_path / "blobs").as_uri() if request.param == "file" else "memory://")


async def pieces(*chunks: bytes, failure: Exception | None = None) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    if failure is not None:
        raise failure


async def read(store: BlobStore, key: str, offset: int = 0, length: int | None = None) -> bytes:
    return b"".join([piece async for piece in store.get_stream(key, offset, length)])


async def keys(store: BlobStore, prefix: str = "") -> set[str]:
    return {info.key async for info in store.list(prefix)}


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("chunks", [(), (b"",), (b"a",), (b"ab", b"", b"c"), tuple(b"x" * MEBIBYTE for _ in range(12))])
async def test_round_trip(store: BlobStore, chunks: tuple[bytes, ...]) -> None:
    whole = b"".join(chunks)
    assert await store.put_stream("a/b", pieces(*chunks)) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert await read(store, "a/b") == whole
    info = await store.head("a/b")
    assert (info.key, info.size) == ("a/b", len(whole))


async def test_parts_of_a_blob(store: BlobStore) -> None:
    whole = bytes(range(256)) * 8_192
    await store.put_stream("k", pieces(whole))
    assert await read(store, "k", 1_000_000) == whole[1_000_000:]
    assert await read(store, "k", 3, 5) == whole[3:8]
    assert await read(store, "k", len(whole)) == b""
    assert await read(store, "k", 3, 0) == b""
    assert await read(store, "k", len(whole) - 1, 100) == whole[-1:]
    assert all([len(piece) <= CHUNK_BYTES async for piece in store.get_stream("k")])
    for offset in (-1, len(whole) + 1):
        with pytest.raises(FleetError, match="INVALID_ARGUMENT"):
            await read(store, "k", offset)


async def test_a_blob_that_is_not_there(store: BlobStore) -> None:
    for outcome in (store.head("none"), read(store, "none")):
        with pytest.raises(FleetError, match="FILE_NOT_FOUND"):
            await outcome
    await store.delete("none")


async def test_list_and_delete(store: BlobStore) -> None:
    for key in ("a/1", "a/2", "ab/3", "c"):
        await store.put_stream(key, pieces(b"x"))
    assert await keys(store) == {"a/1", "a/2", "ab/3", "c"}
    assert await keys(store, "a") == {"a/1", "a/2"}
    await store.delete("a/1")
    assert await keys(store, "a") == {"a/2"}


@pytest.mark.parametrize("size", [10, 12 * MEBIBYTE])
async def test_a_failed_put_leaves_nothing(tmp_path: Path, size: int) -> None:
    store = BlobStore(tmp_path.as_uri())
    chunk = b"x" * min(size, MEBIBYTE)
    chunks = [chunk] * (size // len(chunk))
    digest = hashlib.sha256(b"".join(chunks)).hexdigest()
    attempts = [
        (store.put_stream("k", pieces(*chunks, failure=RuntimeError("gone"))), RuntimeError, "gone"),
        (store.put_stream("k", pieces(*chunks), max_bytes=size - 1), FleetError, "ATTACHMENT_TOO_LARGE"),
        (store.put_stream("k", pieces(*chunks), expected_size=size + 1), FleetError, "UPLOAD_INCOMPLETE"),
        (store.put_stream("k", pieces(*chunks), expected_sha256="0" * 64), FleetError, "CHECKSUM_MISMATCH"),
    ]
    for attempt, kind, message in attempts:
        with pytest.raises(kind, match=message):
            await attempt
        assert files(tmp_path) == []
    put = store.put_stream("k", pieces(*chunks), max_bytes=size, expected_size=size, expected_sha256=digest)
    assert await put == (size, digest)


async def test_a_cancelled_put_leaves_nothing(tmp_path: Path) -> None:
    store = BlobStore(tmp_path.as_uri())
    waiting = asyncio.Event()
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            for _ in range(12):
                yield b"x" * MEBIBYTE
            waiting.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    task = asyncio.create_task(store.put_stream("k", endless()))
    await asyncio.wait_for(waiting.wait(), 10)
    assert files(tmp_path) != []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert files(tmp_path) == []
    assert closed.is_set()


async def test_a_failed_put_keeps_the_former_blob(store: BlobStore) -> None:
    await store.put_stream("k", pieces(b"former"))
    with pytest.raises(RuntimeError):
        await store.put_stream("k", pieces(b"x" * 6 * MEBIBYTE, failure=RuntimeError()))
    assert await read(store, "k") == b"former"


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "..", "a/../b", ".hidden", "a b", "é", "a\0", "a\\b", "x" * 129]
)
async def test_bad_keys(store: BlobStore, key: str) -> None:
    with pytest.raises(FleetError, match="PATH_INVALID"):
        await store.put_stream(key, pieces(b"x"))
    with pytest.raises(FleetError, match="PATH_INVALID"):
        await store.delete(key)


async def test_a_store_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for url in ((tmp_path / "file" / "x").as_uri(), "ftp://host/x"):
        with pytest.raises(ConfigError, match=r"storage\.blob_url"):
            BlobStore(url)
    store = BlobStore((tmp_path / "blobs").as_uri())
    (tmp_path / "blobs").rmdir()
    (tmp_path / "blobs").write_text("")
    with pytest.raises(FleetError, match="UNAVAILABLE") as error:
        await store.put_stream("a/b", pieces(b"x"))
    assert str(tmp_path) not in error.value.message
