"""What the broker asks of a place where sandboxes live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from services.sandbox.agent.frames import Frame
from services.sandbox.files.folder import FoundFile


class Kind(StrEnum):
    """What a sandbox is for."""

    ROOT = "root"
    CHILD = "child"


@dataclass(frozen=True)
class SandboxSpec:
    """A sandbox to make.

    Attributes:
        name: Deterministic name; making the same name twice is an error of the caller.
        kind: A Root sees its workspace, a child only its own scratch.
        workspace: The workspace whose files a Root sees; None for a child, and for a Root that is kept warm.
    """

    name: str
    kind: Kind
    workspace: str | None = None


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox that was made.

    Attributes:
        name: Its name.
        mount_root: Absolute path inside below which staged files lie.
        isolation: What keeps its code apart: "bubblewrap" or "daytona".
    """

    name: str
    mount_root: str
    isolation: str


@dataclass(frozen=True)
class OwnedSandbox:
    """A sandbox of this deployment that the provider knows of.

    Attributes:
        name: Its name.
        create_time: When it was made, UTC.
    """

    name: str
    create_time: datetime


@dataclass(frozen=True)
class ProviderHealth:
    """Whether sandboxes can be made.

    Attributes:
        ok: Whether they can.
        detail: The isolation achieved, or what to change, in public words.
    """

    ok: bool
    detail: str


class FrameChannel(Protocol):
    """The supervisor's channel; frames arrive whole and in order."""

    async def send(self, frame: Frame) -> None:
        """Write a frame.

        Raises:
            FleetError: `LEASE_LOST` when the sandbox is gone.
        """

    async def receive(self) -> Frame | None:
        """Return the next frame, or None when the sandbox is gone."""

    async def close(self) -> None:
        """Close the broker's end."""


class SandboxProvider(Protocol):
    """Makes, reaches and removes sandboxes. Names are those of `SandboxSpec`."""

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        """Make and start a sandbox.

        Raises:
            FleetError: `SANDBOX_START_FAILED` or `SANDBOX_ISOLATION_UNAVAILABLE`; nothing is left behind.
        """

    async def connect(self, name: str) -> FrameChannel:
        """Return the channel of a sandbox that this process made.

        Raises:
            FleetError: `LEASE_LOST` when there is none.
        """

    async def stage(self, name: str, path: str, chunks: AsyncIterator[bytes], byte_size: int, sha256: str) -> str:
        """Write a file below the mount root and return its absolute path inside.

        Raises:
            FleetError: `PATH_INVALID`, `DATA_CORRUPTED` when size or hash are not met, `LEASE_LOST`.
        """

    async def find(self, name: str, path: str, max_bytes: int) -> FoundFile:
        """Describe a regular file below the mount root.

        Raises:
            FleetError: `PATH_INVALID`, `FILE_NOT_FOUND`, `FILE_NOT_REGULAR`, `FILE_LIMIT_EXCEEDED`, `LEASE_LOST`.
        """

    def read(self, name: str, file: FoundFile) -> AsyncIterator[bytes]:
        """Read a file that was found, and check that it is still the same.

        Raises:
            FleetError: `FILE_CHANGED`, `FILE_NOT_FOUND`, `LEASE_LOST`.
        """

    async def resolve(self, workspace: str, paths: list[str], max_files: int, max_bytes: int) -> list[FoundFile]:
        """Expand files and folders of a workspace into regular files, sorted by path.

        Raises:
            FleetError: as `find`.
        """

    def read_workspace(self, workspace: str, file: FoundFile) -> AsyncIterator[bytes]:
        """Read a file of a workspace that was found, and check that it is still the same."""

    async def destroy(self, name: str) -> None:
        """Remove a sandbox and its private files; one that isn't there is no error."""

    async def confirm_absent(self, name: str) -> bool:
        """Return whether neither a process nor private files of the sandbox exist."""

    async def list_owned(self) -> list[OwnedSandbox]:
        """Return the sandboxes of this deployment, also those that another process made."""

    async def health(self) -> ProviderHealth:
        """Return whether sandboxes can be made."""

    async def close(self) -> None:
        """Remove every sandbox that this process made."""
