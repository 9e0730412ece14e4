"""The sandbox broker over gRPC, as one Turn's children use it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, Callable, Sequence
from typing import TypeAlias

from fleet.sandbox.v1 import files_pb2, lease_pb2, sandbox_service_pb2, sandbox_service_pb2_grpc
from google.protobuf.duration_pb2 import Duration

from services.common.errors import FleetError
from services.common.rpc_status import translated_errors
from services.recursion.children.outcomes import ResultFile
from services.recursion.children.ports import Collected, Sandbox
from services.recursion.children.tasks import StagedFile

_PAGE = 200

Stubs: TypeAlias = "Callable[[str], sandbox_service_pb2_grpc.SandboxServiceAsyncStub]"
"""Gives the stub of a broker replica by its address; the empty one is the broker as a whole."""


class BrokerClient:
    """A `ports.Broker` whose calls carry the token of one Turn's children."""

    def __init__(self, stubs: Stubs, session: str, turn: str, *, lease_seconds: float, renew_seconds: float) -> None:
        """Begin; nothing is sent yet.

        Args:
            stubs: gives stubs whose calls carry the token.
            session: the Session's id.
            turn: the Turn's id.
            lease_seconds: how long a lease lives without renewal.
            renew_seconds: pause between renewals.
        """
        self._stubs = stubs
        self._session = session
        self._turn = turn
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds

    async def resolve(self, paths: Sequence[str], max_files: int, max_bytes: int) -> list[StagedFile]:
        """Expand files and folders of the workspace into a manifest; see `ports.Broker`."""
        request = sandbox_service_pb2.ResolveFilesRequest(paths=paths, max_files=max_files, max_bytes=max_bytes)
        with translated_errors():
            response = await self._stubs("").ResolveFiles(request)
        return [StagedFile(file.path, file.path, file.byte_size, file.sha256) for file in response.files]

    async def acquire(self, child: str) -> Sandbox:
        """Wait for a CHILD sandbox; see `ports.Broker`."""
        request = sandbox_service_pb2.AcquireLeaseRequest(
            request_id=f"child-{child}",
            kind=lease_pb2.LEASE_KIND_CHILD,
            owner=lease_pb2.LeaseOwner(session=self._session, turn=self._turn, child=child),
            ttl=_duration(self._lease_seconds),
        )
        with translated_errors():
            lease = await self._stubs("").AcquireLease(request)
        return Sandbox(lease.name, lease.epoch, lease.endpoint, lease.mount_root)

    async def keep(self, sandbox: Sandbox) -> None:
        """Prolong a lease until cancelled or until it is gone; see `ports.Broker`."""
        request = sandbox_service_pb2.RenewLeaseRequest(
            name=sandbox.lease, epoch=sandbox.epoch, ttl=_duration(self._lease_seconds), turn=self._turn
        )
        while True:
            await asyncio.sleep(self._renew_seconds)
            try:
                with translated_errors():
                    await self._stubs("").RenewLease(request)
            except FleetError as error:
                if error.reason != "UNAVAILABLE":
                    # The lease is gone, which the interpreter learns by itself.
                    return

    async def stage(self, sandbox: Sandbox, files: Sequence[StagedFile], folder: str) -> list[str]:
        """Copy files of the workspace and attachments into a folder of a sandbox; see `ports.Broker`."""
        staged = await self._stage(sandbox, [_stage_file(file, folder) for file in files])
        return [file.local_path for file in staged]

    async def collect(self, sandbox: Sandbox, paths: Sequence[str], max_bytes: int) -> list[Collected]:
        """Read declared files of a sandbox; see `ports.Broker`."""
        request = sandbox_service_pb2.CollectFilesRequest(
            lease=sandbox.lease, epoch=sandbox.epoch, paths=paths, max_bytes=max_bytes
        )
        call = self._stubs(sandbox.endpoint).CollectFiles(request)
        try:
            with translated_errors():
                return await _gather(call, max_bytes)
        finally:
            call.cancel()

    async def deliver(self, root: Sandbox, folder: str, files: Sequence[Collected]) -> list[ResultFile]:
        """Write files into a folder of the Root's sandbox; see `ports.Broker`."""
        with translated_errors():
            lease = await self._stubs("").GetLease(sandbox_service_pb2.GetLeaseRequest(name=root.lease))
        holder = Sandbox(root.lease, root.epoch, lease.endpoint)
        staged = await self._stage(
            holder,
            [
                files_pb2.StageFile(
                    inline=file.data, path=f"{folder}/{file.path}", byte_size=len(file.data), sha256=file.sha256
                )
                for file in files
            ],
        )
        return [
            ResultFile(file.path, entry.local_path, len(file.data), file.sha256)
            for file, entry in zip(files, staged, strict=True)
        ]

    async def remove(self, child: str) -> bool:
        """Remove every sandbox of a child; see `ports.Broker`."""
        gone = [await self._release(name) for name in await self._leases(child)]
        return all(gone)

    async def _stage(self, sandbox: Sandbox, files: Sequence[files_pb2.StageFile]) -> Sequence[files_pb2.FileEntry]:
        request = sandbox_service_pb2.StageFilesRequest(lease=sandbox.lease, epoch=sandbox.epoch, files=files)
        with translated_errors():
            response = await self._stubs(sandbox.endpoint).StageFiles(request)
        if len(response.files) != len(files):
            raise FleetError("FILE_CHANGED", "The sandbox did not take every file.")
        return response.files

    async def _leases(self, child: str) -> list[str]:
        names: list[str] = []
        token = ""
        while True:
            request = sandbox_service_pb2.ListLeasesRequest(
                page_size=_PAGE, page_token=token, session=self._session, turn=self._turn
            )
            with translated_errors():
                page = await self._stubs("").ListLeases(request)
            names.extend(lease.name for lease in page.leases if lease.owner.child == child)
            token = page.next_page_token
            if not token:
                return names

    async def _release(self, name: str) -> bool:
        try:
            with translated_errors():
                response = await self._stubs("").ReleaseLease(sandbox_service_pb2.ReleaseLeaseRequest(name=name))
        except FleetError as error:
            if error.reason == "LEASE_NOT_FOUND":
                return True
            raise
        return bool(response.confirmed_absent)


def _stage_file(file: StagedFile, folder: str) -> files_pb2.StageFile:
    wanted = files_pb2.StageFile(path=f"{folder}/{file.path}", byte_size=file.byte_size, sha256=file.sha256)
    if file.blob_key:
        wanted.blob_key = file.blob_key
    else:
        wanted.workspace_path = file.workspace_path
    return wanted


async def _gather(parts: AsyncIterable[sandbox_service_pb2.CollectFilesResponse], max_bytes: int) -> list[Collected]:
    """Put streamed files together and check each against its entry."""
    entries: list[tuple[files_pb2.FileEntry, bytearray]] = []
    size = 0
    async for part in parts:
        if part.HasField("file"):
            entries.append((part.file, bytearray()))
            continue
        size += len(part.chunk)
        if size > max_bytes or not entries:
            raise FleetError("FILE_LIMIT_EXCEEDED", f"The files have more than {max_bytes} bytes.")
        entries[-1][1].extend(part.chunk)
    return [_checked(entry, bytes(data)) for entry, data in entries]


def _checked(entry: files_pb2.FileEntry, data: bytes) -> Collected:
    sha256 = hashlib.sha256(data).hexdigest()
    if len(data) != entry.byte_size or sha256 != entry.sha256:
        raise FleetError("FILE_CHANGED", f"File {entry.path} changed while it was read.")
    return Collected(entry.path, data, sha256)


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration
