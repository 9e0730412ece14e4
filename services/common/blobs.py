"""Attachment and artifact bytes in a folder or an object store, streamed both ways and never held whole."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ParamSpec, TypeVar
from urllib.parse import unquote, urlparse

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import LocalStore, MemoryStore, from_url

from config.problem import ConfigError, Problem
from services.common.errors import FleetError
from services.common.tally import Tally

CHUNK_BYTES = 1024 * 1024
"""The largest piece that a read yields."""

_PART_BYTES = 5 * 1024 * 1024
_PARTS_AT_ONCE = 2
_READ_BYTES = 256 * 1024
P = ParamSpec("P")
T = TypeVar("T")

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,127}){0,7}")


@dataclass(frozen=True)
class BlobInfo:
    """What is known of a stored blob.

    Attributes:
        key: its key.
        size: its bytes.
        modified: when it was stored, in UTC.
    """

    key: str
    size: int
    modified: datetime


class BlobStore:
    """Blobs by key; a key is up to eight `/`-separated names of letters, digits, `.`, `_` and `-`.

    Args:
        url: `file:///folder` (made when missing, readable by this user only), `memory://`, `s3://…`, `gs://…`, `az://…`.

    Raises:
        ConfigError: the URL can't be used.
    """

    def __init__(self, url: str) -> None:
        self._store = _open(url)

    async def put_stream(
        self,
        key: str,
        chunks: AsyncIterator[bytes],
        *,
        max_bytes: int | None = None,
        expected_size: int | None = None,
        expected_sha256: str | None = None,
    ) -> tuple[int, str]:
        """Store `chunks` as `key`, whole or not at all, also when it is cancelled.

        Args:
            key: where; a blob that is there is replaced.
            chunks: the bytes, in any pieces.
            max_bytes: most bytes that are taken.
            expected_size: bytes that must come.
            expected_sha256: lower-case hex digest that they must have.

        Returns:
            The size in bytes and the lower-case hex SHA-256.

        Raises:
            FleetError: ATTACHMENT_TOO_LARGE, UPLOAD_INCOMPLETE, CHECKSUM_MISMATCH, or UNAVAILABLE for the store
                itself; whatever `chunks` raises passes through.
        """
        tally = Tally(max_bytes, expected_size, expected_sha256)
        with _store_errors():
            writer = await _in_thread(self._open_writer, _checked(key))
        try:
            async for chunk in chunks:
                tally.take(chunk)
                with _store_errors():
                    await _in_thread(writer.write, chunk)
            tally.check_end()
            with _store_errors():
                await _in_thread(writer.close)
        except BaseException as error:
            with _store_errors():
                await _in_thread(writer.__exit__, type(error), error, None)
            raise
        return tally.size, tally.sha256

    def _open_writer(self, key: str) -> obstore.WritableFile:
        return obstore.open_writer(self._store, key, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE)

    async def get_stream(self, key: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The blob's bytes from `offset` on, at most `length` of them, in pieces of at most 1 MiB.

        Raises:
            FleetError: FILE_NOT_FOUND; INVALID_ARGUMENT for an offset beyond the end; UNAVAILABLE.
        """
        size = (await self.head(key)).size
        if offset < 0 or offset > size:
            raise FleetError("INVALID_ARGUMENT", f"The offset must be at most the size, {size} bytes.")
        end = size if length is None else min(size, offset + max(0, length))
        if end == offset:
            return
        with _store_errors():
            result = await _in_thread(_get, self._store, key, offset, end)
            pieces = iter(result.stream(min_chunk_size=_READ_BYTES))
            while (piece := await _in_thread(next, pieces, None)) is not None:
                view = memoryview(piece)
                for start in range(0, len(view), CHUNK_BYTES):
                    yield bytes(view[start : start + CHUNK_BYTES])

    async def head(self, key: str) -> BlobInfo:
        """What is known of a blob.

        Raises:
            FleetError: FILE_NOT_FOUND or UNAVAILABLE.
        """
        with _store_errors():
            meta = await _in_thread(obstore.head, self._store, _checked(key))
        return BlobInfo(meta["path"], meta["size"], meta["last_modified"])

    async def delete(self, key: str) -> None:
        """Remove a blob; one that isn't there is no error.

        Raises:
            FleetError: UNAVAILABLE.
        """
        with _store_errors(), suppress(FileNotFoundError, NotFoundError):
            await _in_thread(obstore.delete, self._store, _checked(key))

    async def list(self, prefix: str = "") -> AsyncIterator[BlobInfo]:
        """Every blob below `prefix`, a whole number of names such as `attachments/abc`, in no order.

        Raises:
            FleetError: UNAVAILABLE.
        """
        with _store_errors():
            batches = iter(obstore.list(self._store, prefix=_checked(prefix) if prefix else None))
            while (batch := await _in_thread(next, batches, None)) is not None:
                for meta in batch:
                    yield BlobInfo(meta["path"], meta["size"], meta["last_modified"])


@contextmanager
def _store_errors() -> Iterator[None]:
    """Raises what the store fails with as FleetError."""
    try:
        yield
    except (FileNotFoundError, NotFoundError) as error:
        raise FleetError("FILE_NOT_FOUND", "The stored bytes are gone.") from error
    except (BaseError, OSError) as error:
        raise FleetError("UNAVAILABLE", "The blob store can't be used.") from error


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns, run in a thread of the loop's pool.

    The store's own asynchronous calls may abort the interpreter when it ends soon after one. A cancelled caller waits
    for the thread, because a writer must not be closed while it writes.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def _get(store: obstore.store.ObjectStore, key: str, start: int, end: int) -> obstore.GetResult:
    return obstore.get(store, key, options={"range": (start, end)})


def _open(url: str) -> obstore.store.ObjectStore:
    parsed = urlparse(url)
    try:
        if parsed.scheme == "file":
            folder = Path(unquote(parsed.path))
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return LocalStore(folder, mkdir=True)
        return MemoryStore() if parsed.scheme == "memory" else from_url(url)
    except (BaseError, OSError, ValueError) as error:
        raise ConfigError([Problem("storage.blob_url", "can't be used; see storage.blob_url in fleet.toml")]) from error


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise FleetError("PATH_INVALID", "A blob key has one to eight names of letters, digits, '.', '_' and '-'.")
    return key
