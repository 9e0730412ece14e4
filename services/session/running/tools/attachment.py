"""The Root's tool over the text of its Turn's attachments."""

from __future__ import annotations

import bisect
import codecs
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol

from fleet.session.v1 import turn_event_pb2 as pb
from pydantic import JsonValue

from services.common.errors import FleetError
from services.rlm.tools import ToolDeclaration
from services.session.attachments.attachment import Attachment
from services.session.running.tools.arguments import failure, whole_number
from services.session.running.turn_events import Payload

MAX_CHARACTERS = 10_000
"""Most characters that one call returns."""

READ_ATTACHMENT = ToolDeclaration(
    name="read_attachment",
    description=(
        "Returns characters of an attachment's UTF-8 text: "
        '{"ok": true, "text", "offset", "next_offset"}; next_offset is null at the end. '
        f"At most {MAX_CHARACTERS} characters a call. The attachments variable reads files faster."
    ),
    parameters={
        "id": {"type": "string"},
        "offset": {"type": "integer", "minimum": 0, "default": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_CHARACTERS, "default": MAX_CHARACTERS},
    },
)


class BlobReader(Protocol):
    """Where the bytes are."""

    def get_stream(self, key: str, offset: int = 0) -> AsyncIterator[bytes]:
        """The bytes of a blob from `offset` on."""


class AttachmentTools:
    """The attachment tool of one Turn.

    Places where a character is known to begin are remembered, so that reading a large text piece by piece does not
    start from its first byte every time.
    """

    def __init__(self, attachments: Sequence[Attachment], blobs: BlobReader, append: Callable[[Payload], None]) -> None:
        """Begin without known places.

        Args:
            attachments: those of the Turn; others don't exist for it.
            blobs: where their bytes are.
            append: takes the events.
        """
        self._attachments = {attachment.id: attachment for attachment in attachments}
        self._blobs = blobs
        self._append = append
        self._places: dict[str, list[tuple[int, int]]] = {}

    async def read_attachment(self, id: object, offset: object = 0, limit: object = MAX_CHARACTERS) -> JsonValue:
        """Return up to `limit` characters from character `offset` on."""
        start, count = whole_number(offset, 0, None), whole_number(limit, 1, MAX_CHARACTERS)
        if start is None or count is None:
            return failure("INVALID_ARGUMENT", f"offset must be ≥ 0 and limit 1 to {MAX_CHARACTERS}.")
        found = self._attachments.get(str(id).removeprefix("attachments/"))
        if found is None:
            return failure("ATTACHMENT_NOT_FOUND", "This Turn has no attachment with that id.")
        try:
            text, more = await self._read(found, start, count)
        except UnicodeDecodeError:
            return failure("FILE_NOT_REGULAR", "The attachment is not UTF-8 text; read its bytes in the sandbox.")
        except FleetError as error:
            return failure(error.reason, error.message)
        self._append(
            ("attachment_read", pb.AttachmentRead(attachment=found.name, filename=found.filename, characters=len(text)))
        )
        return {"ok": True, "text": text, "offset": start, "next_offset": start + len(text) if more else None}

    async def _read(self, attachment: Attachment, start: int, count: int) -> tuple[str, bool]:
        """The characters, and whether more follow."""
        places = self._places.setdefault(attachment.id, [(0, 0)])
        position, byte = places[bisect.bisect_right(places, (start, attachment.byte_size)) - 1]
        decoder = codecs.getincrementaldecoder("utf-8")()
        pieces: list[str] = []
        missing = count + 1
        async with aclosing(_pieces(self._blobs.get_stream(attachment.blob_key, byte))) as chunks:
            async for chunk in chunks:
                text = decoder.decode(chunk)
                byte += len(chunk)
                pieces.append(text[max(0, start - position) :][:missing])
                missing -= len(pieces[-1])
                position += len(text)
                self._remember(places, position, byte - len(decoder.getstate()[0]))
                if not missing:
                    break
            else:
                decoder.decode(b"", final=True)
        joined = "".join(pieces)
        return joined[:count], len(joined) > count

    def _remember(self, places: list[tuple[int, int]], position: int, byte: int) -> None:
        if position > places[-1][0]:
            places.append((position, byte))


async def _pieces(stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The stream, closed with its reader when that stops early."""
    try:
        async for piece in stream:
            yield piece
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
