"""A sandbox provider in memory, whose failures tests choose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from services.common.errors import FleetError
from services.sandbox.agent.frames import Frame
from services.sandbox.files.folder import FoundFile
from services.sandbox.providers.base import OwnedSandbox, ProviderHealth, SandboxInfo, SandboxSpec


class FakeChannel:
    """A channel that says nothing until its sandbox ends."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []
        self.ended = asyncio.Event()

    async def send(self, frame: Frame) -> None:
        if self.ended.is_set():
            raise FleetError("LEASE_LOST", "The sandbox is gone.")
        self.sent.append(frame)

    async def receive(self) -> Frame | None:
        await self.ended.wait()
        return None

    async def close(self) -> None:
        self.ended.set()


class FakeProvider:
    """Sandboxes by name.

    Attributes:
        sandboxes: those that exist.
        created: every spec that was asked for.
        fail_creation: raised by `create` when given.
        hold_creation: when set, `create` waits for it.
        undeletable: names, or "*", whose removal has no effect.
    """

    def __init__(self) -> None:
        self.sandboxes: dict[str, FakeChannel] = {}
        self.created: list[SandboxSpec] = []
        self.fail_creation: FleetError | None = None
        self.hold_creation: asyncio.Event | None = None
        self.undeletable: set[str] = set()
        self.create_time = datetime(2029, 1, 1, tzinfo=UTC)
        self.closed = False

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        self.created.append(spec)
        if self.hold_creation is not None:
            await self.hold_creation.wait()
        if self.fail_creation is not None:
            raise self.fail_creation
        self.sandboxes[spec.name] = FakeChannel()
        return SandboxInfo(spec.name, "/workspace" if spec.workspace else "/scratch", "bubblewrap")

    async def connect(self, name: str) -> FakeChannel:
        return self.sandboxes[name]

    async def destroy(self, name: str) -> None:
        if not self.undeletable & {name, "*"} and name in self.sandboxes:
            await self.sandboxes.pop(name).close()

    async def confirm_absent(self, name: str) -> bool:
        return name not in self.sandboxes

    async def list_owned(self) -> list[OwnedSandbox]:
        return [OwnedSandbox(name, self.create_time) for name in self.sandboxes]

    async def health(self) -> ProviderHealth:
        return ProviderHealth(True, "fake")

    async def close(self) -> None:
        self.closed = True

    async def stage(self, name: str, path: str, chunks: AsyncIterator[bytes], byte_size: int, sha256: str) -> str:
        raise NotImplementedError

    async def find(self, name: str, path: str, max_bytes: int) -> FoundFile:
        raise NotImplementedError

    def read(self, name: str, file: FoundFile) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def resolve(self, workspace: str, paths: list[str], max_files: int, max_bytes: int) -> list[FoundFile]:
        raise NotImplementedError

    def read_workspace(self, workspace: str, file: FoundFile) -> AsyncIterator[bytes]:
        raise NotImplementedError
