"""Use cases about files: into a sandbox, out of it, and what a workspace has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from services.common.blobs import BlobStore
from services.common.errors import FleetError
from services.common.request_context import Principal
from services.sandbox.files.folder import FoundFile
from services.sandbox.files.paths import check_distinct, looks_secret, split
from services.sandbox.leases.lease import Lease
from services.sandbox.providers.base import Kind, SandboxProvider
from services.sandbox.service import SandboxService

DEFAULT_FILES = 64
DEFAULT_BYTES = 64 << 20


@dataclass(frozen=True)
class StageRequest:
    """A file to stage; exactly one source is given.

    Attributes:
        path: Where it goes, relative to the mount root.
        byte_size: Its size.
        sha256: SHA-256 of its bytes, hexadecimal.
        blob_key: Key of the blob store.
        workspace_path: Path in the lease's workspace.
        inline: The bytes.
    """

    path: str
    byte_size: int
    sha256: str
    blob_key: str | None = None
    workspace_path: str | None = None
    inline: bytes | None = None


@dataclass(frozen=True)
class StagedFile:
    """A file that was staged.

    Attributes:
        file: Its path relative to the mount root, size and hash.
        local_path: Its absolute path inside the sandbox.
    """

    file: FoundFile
    local_path: str


class FileService:
    """Moves files between the blob store, workspaces and sandboxes.

    Args:
        leases: Checks the lease.
        provider: Reaches the files.
        blobs: Where attachments' bytes are.
    """

    def __init__(self, leases: SandboxService, provider: SandboxProvider, blobs: BlobStore) -> None:
        self._leases = leases
        self._provider = provider
        self._blobs = blobs

    async def stage(
        self, caller: Principal, lease_id: str, epoch: int, files: Sequence[StageRequest]
    ) -> list[StagedFile]:
        """Put files into a sandbox, each checked on the way; one that is there already is not written again.

        Raises:
            FleetError: `PATH_INVALID`, `PATH_REFUSED`, `FILE_NOT_FOUND`, `DATA_CORRUPTED`, `FILE_CHANGED`, and those
                of `SandboxService.usable`.
        """
        lease, _ = await self._leases.usable(caller, lease_id, epoch)
        check_distinct(file.path for file in files)
        if lease.kind is Kind.CHILD:
            _refuse_secrets(file.path for file in files)
        return [await self._stage(lease, file) for file in files]

    async def _stage(self, lease: Lease, file: StageRequest) -> StagedFile:
        sha256 = file.sha256.lower()
        found = FoundFile(file.path, file.byte_size, sha256)
        with suppress(FleetError):
            if await self._provider.find(lease.sandbox, file.path, file.byte_size) == found:
                return StagedFile(found, f"{lease.mount_root}/{file.path}")
        chunks = self._source(lease, file)
        local_path = await self._provider.stage(lease.sandbox, file.path, chunks, file.byte_size, sha256)
        return StagedFile(found, local_path)

    def _source(self, lease: Lease, file: StageRequest) -> AsyncIterator[bytes]:
        if file.blob_key is not None:
            return self._blobs.get_stream(file.blob_key)
        if file.workspace_path is not None:
            split(file.workspace_path)
            if lease.kind is Kind.CHILD:
                _refuse_secrets([file.workspace_path])
            source = FoundFile(file.workspace_path, file.byte_size, file.sha256.lower())
            return self._provider.read_workspace(lease.workspace, source)
        return _once(file.inline or b"")

    async def resolve(self, caller: Principal, paths: Sequence[str], max_files: int, max_bytes: int) -> list[FoundFile]:
        """Expand files and folders of the caller's workspace into a manifest for children, sorted by path.

        Raises:
            FleetError: `PATH_INVALID`, `PATH_REFUSED` when one has a secret-looking name, `FILE_NOT_FOUND`,
                `FILE_NOT_REGULAR`, `FILE_LIMIT_EXCEEDED`.
        """
        for path in paths:
            split(path)
        _refuse_secrets(paths)
        found = await self._provider.resolve(
            caller.workspace, list(paths), max_files or DEFAULT_FILES, max_bytes or DEFAULT_BYTES
        )
        _refuse_secrets(file.path for file in found)
        return found

    async def collect(
        self, caller: Principal, lease_id: str, epoch: int, paths: Sequence[str], max_bytes: int
    ) -> AsyncGenerator[FoundFile | bytes, None]:
        """Read declared files of a sandbox: each as its description, then its bytes, checked again.

        Raises:
            FleetError: `PATH_INVALID`, `FILE_NOT_FOUND`, `FILE_NOT_REGULAR`, `FILE_LIMIT_EXCEEDED`, `FILE_CHANGED`,
                and those of `SandboxService.usable`.
        """
        lease, _ = await self._leases.usable(caller, lease_id, epoch)
        check_distinct(paths)
        left = max_bytes or DEFAULT_BYTES
        found = []
        for path in paths:
            file = await self._provider.find(lease.sandbox, path, left)
            left -= file.byte_size
            found.append(file)
        for file in found:
            yield file
            async for chunk in self._provider.read(lease.sandbox, file):
                yield chunk


def _refuse_secrets(paths: Iterable[str]) -> None:
    for path in paths:
        if looks_secret(path):
            raise FleetError(
                "PATH_REFUSED", "The name looks like a secret and is not given to children.", {"path": path}
            )


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
