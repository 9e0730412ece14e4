"""Reading an attachment by characters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from services.session.attachments.attachment import Attachment
from services.session.running.tools.attachment import AttachmentTools
from services.session.running.turn_events import Payload


class Blobs:
    """Bytes in memory, in pieces of a few bytes; counts what was read."""

    def __init__(self, data: bytes, piece: int) -> None:
        self.data = data
        self.piece = piece
        self.read = 0

    async def get_stream(self, key: str, offset: int = 0) -> AsyncIterator[bytes]:
        for start in range(offset, len(self.data), self.piece):
            self.read += self.piece
            yield self.data[start : start + self.piece]


def attachment(data: bytes) -> Attachment:
    return Attachment("a1", "w", "x.txt", "text/plain", len(data), "0" * 64, datetime.now(UTC), "k")


def tools(data: bytes, piece: int = 7) -> tuple[AttachmentTools, Blobs, list[Payload]]:
    blobs, events = Blobs(data, piece), list[Payload]()
    return AttachmentTools([attachment(data)], blobs, events.append), blobs, events


@given(
    st.text(min_size=1, max_size=120),
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(0, 130), st.integers(1, 50)), max_size=6),
)
async def test_any_window_of_any_text(text: str, piece: int, windows: list[tuple[int, int]]) -> None:
    reader, _, _ = tools(text.encode(), piece)
    for offset, limit in windows:
        result = await reader.read_attachment("attachments/a1", offset, limit)
        end = offset + limit
        expected = text[offset:end]
        next_offset = end if end < len(text) else None
        assert result == {"ok": True, "text": expected, "offset": offset, "next_offset": next_offset}


async def test_reading_on_does_not_start_from_the_first_byte() -> None:
    reader, blobs, events = tools(b"x" * 100_000, piece=1000)
    for offset in range(0, 100_000, 10_000):
        await reader.read_attachment("a1", offset)
    assert blobs.read < 130_000
    assert len(events) == 10


async def test_expected_failures_are_values() -> None:
    reader, _, events = tools(b"\xff\xfe\x00")
    binary = await reader.read_attachment("a1")
    unknown = await reader.read_attachment("a2")
    wrong = await reader.read_attachment("a1", -1)
    too_much = await reader.read_attachment("a1", 0, 10_001)
    assert [result["error"] for result in (binary, unknown, wrong, too_much)] == [  # type: ignore[index, call-overload]
        "FILE_NOT_REGULAR",
        "ATTACHMENT_NOT_FOUND",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
    ]
    assert events == []
