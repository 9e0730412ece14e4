"""Use cases of attachments."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from services.common.blobs import BlobStore
from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.ids import new_id
from services.session import pages
from services.session.attachments.attachment import Attachment
from services.session.pages import Page
from services.session.refusals import invalid
from services.session.store import Store

DOWNLOAD_BYTES = 256 * 1024
"""Most bytes of one piece of a download."""

DEFAULT_CONTENT_TYPE = "application/octet-stream"
"""What a document is when its client doesn't say."""


@dataclass(frozen=True)
class Declared:
    """What a client says of a document before its bytes.

    Attributes:
        filename: a plain name.
        content_type: its media type, or empty.
        byte_size: its size, or None when it isn't known.
        sha256: its SHA-256, or empty.
    """

    filename: str
    content_type: str = ""
    byte_size: int | None = None
    sha256: str = ""


class AttachmentService:
    """Takes, reads, lists and deletes attachments; bytes only ever pass through."""

    def __init__(self, store: Store, blobs: BlobStore, clock: Clock, max_bytes: int) -> None:
        """Args: metadata, bytes, the clock, and the size of the largest attachment."""
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._max_bytes = max_bytes

    async def upload(self, workspace: str, declared: Declared, chunks: AsyncIterator[bytes]) -> Attachment:
        """Store a document; an upload that fails or is cancelled leaves nothing.

        Raises:
            FleetError: ATTACHMENT_TOO_LARGE, UPLOAD_INCOMPLETE, CHECKSUM_MISMATCH.
        """
        attachment_id = new_id()
        key = f"attachments/{attachment_id}"
        self._check_declared(declared)
        size, sha256 = await self._blobs.put_stream(
            key,
            chunks,
            max_bytes=self._max_bytes,
            expected_size=declared.byte_size,
            expected_sha256=declared.sha256 or None,
        )
        attachment = Attachment(
            id=attachment_id,
            workspace=workspace,
            filename=declared.filename,
            content_type=declared.content_type or DEFAULT_CONTENT_TYPE,
            byte_size=size,
            sha256=sha256,
            create_time=self._clock.now(),
            blob_key=key,
        )
        try:
            if size == 0:
                raise FleetError("UPLOAD_INCOMPLETE", "An attachment has at least 1 byte.")
            await self._store.attachments.insert(attachment)
        except BaseException:
            await self._blobs.delete(key)
            raise
        return attachment

    async def get(self, workspace: str, attachment_id: str) -> Attachment:
        """An attachment's metadata.

        Raises:
            FleetError: ATTACHMENT_NOT_FOUND.
        """
        return await self._store.attachments.get(workspace, attachment_id)

    async def page(self, workspace: str, size: int, token: str) -> Page[Attachment]:
        """A page of the workspace's attachments, latest first.

        Raises:
            FleetError: PAGE_TOKEN_INVALID.
        """
        scope = f"attachments:{workspace}"
        count = pages.page_size(size)
        found = await self._store.attachments.page(workspace, pages.decode(scope, token), count + 1)
        return pages.page_of(scope, found, count, lambda each: (each.create_time, each.id))

    async def delete(self, workspace: str, attachment_id: str) -> None:
        """Delete an attachment and its bytes.

        Raises:
            FleetError: ATTACHMENT_NOT_FOUND, ATTACHMENT_IN_USE.
        """
        attachment = await self._store.attachments.delete(workspace, attachment_id)
        await self._blobs.delete(attachment.blob_key)

    async def download(self, workspace: str, attachment_id: str, offset: int, limit: int) -> AsyncIterator[bytes]:
        """An attachment's bytes from an offset; `limit` 0 means all.

        Raises:
            FleetError: ATTACHMENT_NOT_FOUND, INVALID_ARGUMENT for an offset behind the end, DATA_CORRUPTED.
        """
        attachment = await self._store.attachments.get(workspace, attachment_id)
        if offset > attachment.byte_size:
            raise invalid("offset", f"must be at most {attachment.byte_size}")
        left = attachment.byte_size - offset
        left = min(left, limit) if limit else left
        if left == 0:
            return
        try:
            async for piece in self._blobs.get_stream(attachment.blob_key, offset, left):
                for start in range(0, len(piece), DOWNLOAD_BYTES):
                    yield piece[start : start + DOWNLOAD_BYTES]
                left -= len(piece)
        except FleetError as error:
            if error.reason not in ("FILE_NOT_FOUND", "INVALID_ARGUMENT"):
                raise
            raise _corrupted(attachment) from error
        if left:
            raise _corrupted(attachment)

    def _check_declared(self, declared: Declared) -> None:
        """Refuse at once what its client says is too large."""
        if declared.byte_size is not None and declared.byte_size > self._max_bytes:
            limit = str(self._max_bytes)
            raise FleetError("ATTACHMENT_TOO_LARGE", f"At most {limit} bytes are allowed.", {"limit": limit})


def _corrupted(attachment: Attachment) -> FleetError:
    return FleetError("DATA_CORRUPTED", f"The stored bytes of {attachment.name} are incomplete.")
