"""A real sandbox broker on a free port, and calls to it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from fleet.sandbox.v1 import attach_pb2, files_pb2, lease_pb2, sandbox_service_pb2, sandbox_service_pb2_grpc
from google.protobuf.duration_pb2 import Duration

from config.loader import load
from config.policy import Policy
from services.common import keys
from services.common.blobs import BlobStore
from services.common.rpc_status import translated_errors
from services.common.server import MAX_MESSAGE_BYTES
from services.common.tokens import Claims
from services.sandbox.main import build_service

_numbers = itertools.count(1)
_OPTIONS = [("grpc.max_send_message_length", MAX_MESSAGE_BYTES), ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]


def make_policy(root: Path, *overrides: str) -> Policy:
    return load(profile="test", env={}, overrides=[f"storage.data_root={root}", *overrides], components=())


@dataclass
class Broker:
    """A running broker as a client of workspace "w" sees it."""

    policy: Policy
    stub: sandbox_service_pb2_grpc.SandboxServiceAsyncStub

    def token(self, workspace: str = "w", depth: int = 0) -> tuple[tuple[str, str], ...]:
        token = keys.signer(self.policy, {}).sign(Claims(workspace, "tester", "s", "t", depth), 60)
        return (("authorization", f"Bearer {token}"),)

    async def acquire(
        self,
        kind: lease_pb2.LeaseKind.ValueType = lease_pb2.LEASE_KIND_ROOT,
        *,
        ttl: int = 60,
        request_id: str = "",
        **call: Any,
    ) -> lease_pb2.Lease:
        request = sandbox_service_pb2.AcquireLeaseRequest(
            request_id=request_id or f"r{next(_numbers)}",
            kind=kind,
            owner=lease_pb2.LeaseOwner(session="s", turn="t"),
            ttl=Duration(seconds=ttl),
        )
        with translated_errors():
            return await self.stub.AcquireLease(request, **{"metadata": self.token(), **call})

    async def release(self, lease: lease_pb2.Lease) -> bool:
        request = sandbox_service_pb2.ReleaseLeaseRequest(name=lease.name)
        with translated_errors():
            return (await self.stub.ReleaseLease(request, metadata=self.token())).confirmed_absent

    async def stage(self, lease: lease_pb2.Lease, **files: files_pb2.StageFile) -> list[files_pb2.FileEntry]:
        request = sandbox_service_pb2.StageFilesRequest(lease=lease.name, epoch=lease.epoch, files=files.values())
        with translated_errors():
            return list((await self.stub.StageFiles(request, metadata=self.token())).files)

    async def resolve(self, *paths: str, **limits: int) -> list[files_pb2.FileEntry]:
        request = sandbox_service_pb2.ResolveFilesRequest(paths=paths, **limits)
        with translated_errors():
            return list((await self.stub.ResolveFiles(request, metadata=self.token())).files)

    async def collect(self, lease: lease_pb2.Lease, *paths: str, max_bytes: int = 1 << 20) -> dict[str, bytes]:
        request = sandbox_service_pb2.CollectFilesRequest(
            lease=lease.name, epoch=lease.epoch, paths=paths, max_bytes=max_bytes
        )
        found: dict[str, bytes] = {}
        with translated_errors():
            async for part in self.stub.CollectFiles(request, metadata=self.token()):
                if part.HasField("file"):
                    found[part.file.path] = b""
                else:
                    found[[*found][-1]] += part.chunk
        return found

    def attach(self, lease: lease_pb2.Lease) -> Stream:
        return Stream(self, lease)


class Stream:
    """An Attach stream."""

    def __init__(self, broker: Broker, lease: lease_pb2.Lease) -> None:
        self._lease = lease
        self.call = broker.stub.Attach(metadata=broker.token())
        self.sequence = 0
        self.seen = 0

    async def write(self, **payload: Any) -> None:
        self.sequence += 1
        await self.call.write(attach_pb2.AttachRequest(sequence=self.sequence, ack=self.seen, **payload))

    async def read(self) -> attach_pb2.AttachResponse:
        with translated_errors():
            response = await self.call.read()
            if response is grpc.aio.EOF:
                code, details = await self.call.code(), await self.call.details()
                raise grpc.aio.AioRpcError(
                    code, await self.call.initial_metadata(), await self.call.trailing_metadata(), details
                )
        self.seen = max(self.seen, response.sequence)
        return response

    async def open(self, *tools: attach_pb2.ToolSpec, fields: tuple[str, ...] = (), **changes: Any) -> attach_pb2.Ready:
        opening = {"lease": self._lease.name, "epoch": self._lease.epoch, "last_sequence": self.seen, **changes}
        outputs = [attach_pb2.OutputField(name=name, type="str") for name in fields]
        await self.write(open=attach_pb2.AttachOpen(tools=tools, output_fields=outputs, **opening))
        while (response := await self.read()).WhichOneof("payload") != "ready":
            pass
        return response.ready

    async def start(self, code: str, **options: Any) -> str:
        execution_id = f"e{next(_numbers)}"
        limits = {"timeout_ms": 10_000, "max_output_bytes": 10_000, **options}
        await self.write(execute=attach_pb2.Execute(execution_id=execution_id, code=code.encode(), **limits))
        return execution_id

    async def finish(self) -> attach_pb2.Done:
        while True:
            response = await self.read()
            if response.WhichOneof("payload") == "done":
                return response.done

    async def run(self, code: str, **options: Any) -> attach_pb2.Done:
        await self.start(code, **options)
        return await self.finish()


def inline(path: str, data: bytes, **changes: Any) -> files_pb2.StageFile:
    entry = {"path": path, "byte_size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **changes}
    if "blob_key" not in entry and "workspace_path" not in entry:
        entry.setdefault("inline", data)
    return files_pb2.StageFile(**entry)


async def put_blob(policy: Policy, key: str, data: bytes) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield data

    await BlobStore(policy.storage.blobs).put_stream(key, chunks())


@asynccontextmanager
async def serving(policy: Policy) -> AsyncIterator[Broker]:
    service = build_service(policy, env={})
    try:
        address = await service.start()
        async with grpc.aio.insecure_channel(address, _OPTIONS) as channel:
            yield Broker(policy, sandbox_service_pb2_grpc.SandboxServiceStub(channel))
    finally:
        await service.stop(1.0)
