"""Attachments over gRPC: streamed both ways, checked, and nothing left of what failed."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet.session.v1 import attachment_service_pb2 as pb
from fleet.session.v1 import session_service_pb2

from tests.fakes import turn_engine
from tests.integration.session.rig import Client, Replica, make_policy, refused, serving, upload_messages

CONTENT = random.Random(7).randbytes(1_300_000)


def stored_files(replica: Replica) -> list[Path]:
    return [path for path in (replica.policy.storage.root / "blobs").rglob("*") if path.is_file()]


async def download(client: Client, name: str, offset: int = 0, limit: int = 0) -> list[bytes]:
    request = pb.DownloadAttachmentRequest(name=name, offset=offset, limit=limit)
    return [message.chunk async for message in client.attachments.DownloadAttachment(request)]


async def assert_nothing_is_left(replica: Replica) -> None:
    assert stored_files(replica) == []
    assert (await replica.client.attachments.ListAttachments(pb.ListAttachmentsRequest())).attachments == []


async def test_upload_get_list_download_delete(replica: Replica, client: Client) -> None:
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    stored = await client.upload(
        CONTENT, filename="dätä.bin", content_type="text/csv", byte_size=len(CONTENT), sha256=sha256
    )
    assert (stored.filename, stored.content_type) == ("dätä.bin", "text/csv")
    assert (stored.byte_size, stored.sha256) == (len(CONTENT), sha256)
    assert await client.attachments.GetAttachment(pb.GetAttachmentRequest(name=stored.name)) == stored
    assert (await client.attachments.ListAttachments(pb.ListAttachmentsRequest())).attachments == [stored]
    chunks = await download(client, stored.name)
    assert b"".join(chunks) == CONTENT
    assert max(map(len, chunks)) <= 256 * 1024
    for offset, limit in ((0, 1), (1, 300_000), (999_999, 0), (len(CONTENT), 0), (len(CONTENT) - 3, 100)):
        expected = CONTENT[offset : offset + limit] if limit else CONTENT[offset:]
        assert b"".join(await download(client, stored.name, offset, limit)) == expected
    async with refused("INVALID_ARGUMENT") as caught:
        await download(client, stored.name, len(CONTENT) + 1)
    assert caught["error"].violations[0].field == "offset"
    await client.attachments.DeleteAttachment(pb.DeleteAttachmentRequest(name=stored.name))
    await assert_nothing_is_left(replica)
    for call in (
        client.attachments.GetAttachment(pb.GetAttachmentRequest(name=stored.name)),
        client.attachments.DeleteAttachment(pb.DeleteAttachmentRequest(name=stored.name)),
        client.attachments.DownloadAttachment(pb.DownloadAttachmentRequest(name=stored.name)).read(),
    ):
        async with refused("ATTACHMENT_NOT_FOUND"):
            await call


@pytest.mark.parametrize(
    ("content", "fields", "reason"),
    [
        (b"", {}, "UPLOAD_INCOMPLETE"),
        (b"1234567", {"byte_size": 10}, "UPLOAD_INCOMPLETE"),
        (b"1234567", {"byte_size": 3}, "UPLOAD_INCOMPLETE"),
        (b"1234567", {"sha256": "0" * 64}, "CHECKSUM_MISMATCH"),
        (b"1234567", {"filename": "../etc"}, "INVALID_ARGUMENT"),
        (b"1234567", {"filename": ""}, "INVALID_ARGUMENT"),
        (b"1234567", {"filename": "."}, "INVALID_ARGUMENT"),
        (b"1234567", {"filename": ".."}, "INVALID_ARGUMENT"),
        (b"1234567", {"filename": "a\x85b"}, "INVALID_ARGUMENT"),
        (b"1234567", {"byte_size": 1 << 40}, "ATTACHMENT_TOO_LARGE"),
    ],
)
async def test_bad_uploads_leave_nothing(
    replica: Replica, client: Client, content: bytes, fields: dict[str, object], reason: str
) -> None:
    async with refused(reason):
        await client.upload(content, **fields)
    await assert_nothing_is_left(replica)


async def test_too_many_bytes(tmp_path: Path) -> None:
    async with serving(make_policy(tmp_path, "storage.max_upload_bytes=1000000")) as replica:
        async with refused("ATTACHMENT_TOO_LARGE"):
            await replica.client.upload(CONTENT)
        await assert_nothing_is_left(replica)


async def test_metadata_comes_first_and_once(replica: Replica, client: Client) -> None:
    async def chunk_first() -> AsyncIterator[pb.UploadAttachmentRequest]:
        yield pb.UploadAttachmentRequest(chunk=b"x")

    async def metadata_twice() -> AsyncIterator[pb.UploadAttachmentRequest]:
        for _ in range(2):
            yield pb.UploadAttachmentRequest(metadata=pb.UploadAttachmentMetadata(filename="a"))

    async def nothing() -> AsyncIterator[pb.UploadAttachmentRequest]:
        return
        yield

    for messages in (chunk_first(), metadata_twice(), nothing()):
        async with refused("INVALID_ARGUMENT"):
            await client.attachments.UploadAttachment(messages)
    await assert_nothing_is_left(replica)


async def test_a_cancelled_upload_leaves_nothing(replica: Replica, client: Client) -> None:
    sent = asyncio.Event()

    async def endless() -> AsyncIterator[pb.UploadAttachmentRequest]:
        async for message in upload_messages(CONTENT):
            yield message
        sent.set()
        await asyncio.Event().wait()

    call = client.attachments.UploadAttachment(endless())
    await sent.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(5):
        while stored_files(replica):
            await asyncio.sleep(0.02)
    await assert_nothing_is_left(replica)


async def test_a_running_turn_keeps_its_attachments(replica: Replica, client: Client) -> None:
    replica.engine.script = turn_engine.until_stopped
    stored = [await client.upload(b"one", filename="one"), await client.upload(b"two", filename="two")]
    turn = await client.create(await client.session(), attachments=[each.name for each in reversed(stored)])
    (run,) = replica.engine.runs.values()
    assert [each.filename for each in run.job.attachments] == ["two", "one"]
    assert list(turn.attachments) == [stored[1].name, stored[0].name]
    delete = pb.DeleteAttachmentRequest(name=stored[0].name)
    async with refused("ATTACHMENT_IN_USE") as caught:
        await client.attachments.DeleteAttachment(delete)
    assert caught["error"].metadata["turn"] == turn.name
    await client.sessions.CancelTurn(session_service_pb2.CancelTurnRequest(name=turn.name))
    await client.attachments.DeleteAttachment(delete)
    assert (await client.turn(turn.name)).attachments == turn.attachments


async def test_lost_bytes_are_told(replica: Replica, client: Client) -> None:
    stored = await client.upload(CONTENT)
    (file,) = stored_files(replica)
    file.write_bytes(CONTENT[:1000])
    async with refused("DATA_CORRUPTED"):
        await download(client, stored.name)
    file.unlink()
    async with refused("DATA_CORRUPTED"):
        await download(client, stored.name)


async def test_list_in_pages(client: Client) -> None:
    made = [(await client.upload(b"x", filename=str(i))).name for i in range(3)]
    page = await client.attachments.ListAttachments(pb.ListAttachmentsRequest(page_size=2))
    assert [each.name for each in page.attachments] == [made[2], made[1]]
    request = pb.ListAttachmentsRequest(page_size=2, page_token=page.next_page_token)
    rest = await client.attachments.ListAttachments(request)
    assert [each.name for each in rest.attachments] == [made[0]]
    assert not rest.next_page_token


async def test_a_strangers_attachment_is_not_found(replica: Replica, client: Client) -> None:
    stored = await client.upload(b"x")
    stranger = replica.client_of("strangers")
    async with stranger.channel:
        for call in (
            stranger.attachments.GetAttachment(pb.GetAttachmentRequest(name=stored.name)),
            stranger.attachments.DeleteAttachment(pb.DeleteAttachmentRequest(name=stored.name)),
        ):
            async with refused("ATTACHMENT_NOT_FOUND"):
                await call
        listed = await stranger.attachments.ListAttachments(pb.ListAttachmentsRequest())
        assert listed.attachments == []
