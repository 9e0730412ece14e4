"""Uploads of the command line, against a real server."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from fleet.session.v1 import attachment_service_pb2 as pb
from fleet.session.v1 import attachment_service_pb2_grpc

from cli.session_client import SessionClient
from services.common.errors import FleetError

CONTENT = bytes(range(256)) * 4_096


class Attachments(attachment_service_pb2_grpc.AttachmentServiceServicer):
    """Takes every upload but those of refused names, which end at their first message."""

    def __init__(self) -> None:
        self.metadata = pb.UploadAttachmentMetadata()
        self.content = b""

    async def UploadAttachment(self, requests: AsyncIterator[Any], context: Any) -> pb.Attachment:
        async for message in requests:
            if message.WhichOneof("part") == "metadata":
                self.metadata = message.metadata
                if self.metadata.filename.startswith("refused"):
                    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "too large")
            self.content += message.chunk
        return pb.Attachment(name="attachments/a1")


async def test_uploads(tmp_path: Path) -> None:
    servicer = Attachments()  # type: ignore[abstract]
    server = grpc.aio.server()
    attachment_service_pb2_grpc.add_AttachmentServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    good, refused = tmp_path / "grün.csv", tmp_path / "refused"
    good.write_bytes(CONTENT)
    refused.write_bytes(CONTENT * 8)
    try:
        async with SessionClient(f"127.0.0.1:{port}") as client:
            assert await client.upload(good) == "attachments/a1"
            assert servicer.content == CONTENT
            told = servicer.metadata
            assert (told.filename, told.content_type, told.byte_size) == ("grün.csv", "text/csv", len(CONTENT))
            assert told.sha256 == hashlib.sha256(CONTENT).hexdigest()
            for _ in range(10):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await client.upload(refused)
                assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "too large")
            with pytest.raises(FleetError, match=r"gone\.txt: can't be read"):
                await client.upload(tmp_path / "gone.txt")
    finally:
        await server.stop(None)
