"""A sandbox broker in memory, as the children of a Turn use it."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Sequence

from services.common.errors import FleetError
from services.recursion.children.outcomes import ResultFile
from services.recursion.children.ports import Collected, Sandbox
from services.recursion.children.tasks import StagedFile

LINK = b"\0link"
"""Bytes that stand for a symbolic link among the files of a sandbox."""


class FakeBroker:
    """One workspace and its sandboxes; every child's sandbox is a dict of files.

    Attributes:
        workspace: files by path.
        blobs: bytes of attachments by key.
        sandboxes: files by path, by lease.
        delivered: what was written for the Root, by path.
        refusals: raised by `acquire`, one a call.
        acquiring: when set, `acquire` waits for it.
        stubborn: how many `remove` calls say that the sandbox isn't gone.
        most: how many sandboxes existed at one moment.
    """

    def __init__(self) -> None:
        self.workspace: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.sandboxes: dict[str, dict[str, bytes]] = {}
        self.delivered: dict[str, bytes] = {}
        self.refusals: list[FleetError] = []
        self.acquiring: asyncio.Event | None = None
        self.stubborn = 0
        self.most = 0
        self.removals: list[str] = []
        self.identities: set[tuple[str, str, str]] = set()
        self._leases: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def of(self, workspace: str, session: str, turn: str) -> FakeBroker:
        self.identities.add((workspace, session, turn))
        return self

    def files_of(self, child: str) -> dict[str, bytes]:
        return self.sandboxes[self._leases[child]]

    async def resolve(self, paths: Sequence[str], max_files: int, max_bytes: int) -> list[StagedFile]:
        found: list[StagedFile] = []
        for path in paths:
            matching = [name for name in sorted(self.workspace) if name == path or name.startswith(path + "/")]
            if not matching:
                raise FleetError("FILE_NOT_FOUND", f"There is no file {path}.")
            found.extend(_entry(name, self.workspace[name]) for name in matching)
        if len(found) > max_files:
            raise FleetError("FILE_LIMIT_EXCEEDED", f"{len(found)} files are more than {max_files}.")
        return found

    async def acquire(self, child: str) -> Sandbox:
        if self.acquiring is not None:
            await self.acquiring.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        lease = f"leases/l{next(self._numbers)}"
        self._leases[child] = lease
        self.sandboxes[lease] = {}
        self.most = max(self.most, len(self.sandboxes))
        return Sandbox(lease, epoch=1, mount_root="/scratch")

    async def keep(self, sandbox: Sandbox) -> None:
        await asyncio.Event().wait()

    async def stage(self, sandbox: Sandbox, files: Sequence[StagedFile], folder: str) -> list[str]:
        for file in files:
            data = self.blobs[file.blob_key] if file.blob_key else self.workspace[file.workspace_path]
            if hashlib.sha256(data).hexdigest() != file.sha256:
                raise FleetError("FILE_CHANGED", f"File {file.path} changed.")
            self.sandboxes[sandbox.lease][f"{folder}/{file.path}"] = data
        return [f"/scratch/{folder}/{file.path}" for file in files]

    async def collect(self, sandbox: Sandbox, paths: Sequence[str], max_bytes: int) -> list[Collected]:
        files = self.sandboxes[sandbox.lease]
        found: list[Collected] = []
        for path in paths:
            if path not in files:
                raise FleetError("FILE_NOT_FOUND", f"There is no file {path}.")
            if files[path] == LINK:
                raise FleetError("FILE_NOT_REGULAR", f"{path} is a link.")
            found.append(Collected(path, files[path], hashlib.sha256(files[path]).hexdigest()))
        if sum(len(file.data) for file in found) > max_bytes:
            raise FleetError("FILE_LIMIT_EXCEEDED", f"The files have more than {max_bytes} bytes.")
        return found

    async def deliver(self, root: Sandbox, folder: str, files: Sequence[Collected]) -> list[ResultFile]:
        for file in files:
            self.delivered[f"{folder}/{file.path}"] = self.workspace[f"{folder}/{file.path}"] = file.data
        return [
            ResultFile(file.path, f"/workspace/{folder}/{file.path}", len(file.data), file.sha256) for file in files
        ]

    async def remove(self, child: str) -> bool:
        self.removals.append(child)
        if self.stubborn:
            self.stubborn -= 1
            return False
        lease = self._leases.pop(child, None)
        if lease is not None:
            del self.sandboxes[lease]
        return True


def _entry(path: str, data: bytes) -> StagedFile:
    return StagedFile(path, path, len(data), hashlib.sha256(data).hexdigest())
