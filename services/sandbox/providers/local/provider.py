"""The local provider."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from services.common.errors import FleetError
from services.sandbox import bundle
from services.sandbox.agent import frames
from services.sandbox.agent.frames import Frame
from services.sandbox.files.folder import Folder, FoundFile, Owner
from services.sandbox.providers.base import Kind, OwnedSandbox, ProviderHealth, SandboxInfo, SandboxSpec
from services.sandbox.providers.local import bubblewrap, census, command, marker
from services.sandbox.providers.local.channel import SocketChannel
from services.sandbox.providers.local.layout import (
    OUTSIDE_UID,
    Layout,
    LocalLimits,
    drops_privileges,
    give_to_sandbox,
)
from services.sandbox.providers.local.spawn import Spawned, spawn

ISOLATION = "bubblewrap"
_HELLO_SECONDS = 15.0
_KILL_SECONDS = 5.0

_log = logging.getLogger(__name__)


@dataclass
class _Sandbox:
    spawned: Spawned
    channel: SocketChannel
    folder: Folder
    mount_root: str


class LocalProvider:
    """Sandboxes in bubblewrap on this machine; a `SandboxProvider`.

    Args:
        data_root: Where scratch folders, workspaces and markers lie.
        limits: What each sandbox may use.
    """

    def __init__(self, data_root: Path, limits: LocalLimits | None = None) -> None:
        self._layout = Layout(data_root)
        self._limits = limits or LocalLimits()
        self._owner = Owner(OUTSIDE_UID, OUTSIDE_UID) if drops_privileges() else Owner()
        self._sandboxes: dict[str, _Sandbox] = {}
        self._layout.prepare()

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        """Start a sandbox and wait for its supervisor's hello; see `SandboxProvider`."""
        agent = await asyncio.to_thread(bundle.install, self._layout.runtime, command.ACCOUNTS)
        mounts = self._prepare(spec, agent)
        try:
            spawned = await spawn(bubblewrap.find(), command.arguments(spec.name, mounts, self._limits))
        except BaseException:
            await asyncio.shield(self._end_by_name(spec.name))
            raise
        try:
            marker.write(self._layout.marker(spec.name), spec.name, spawned.process.pid)
            channel = await SocketChannel.open(spawned.socket)
            await self._hello(spawned, channel)
        except BaseException:
            await asyncio.shield(self._end(spawned))
            await asyncio.shield(self._end_by_name(spec.name))
            raise
        folder = Folder(mounts.workspace or mounts.scratch, self._owner)
        self._sandboxes[spec.name] = _Sandbox(spawned, channel, folder, mounts.root)
        return SandboxInfo(spec.name, mounts.root, ISOLATION)

    def _prepare(self, spec: SandboxSpec, agent: Path) -> command.Mounts:
        scratch = self._layout.scratch(spec.name)
        if scratch.exists():
            raise FleetError("SANDBOX_START_FAILED", "A sandbox of this name exists.")
        scratch.parent.mkdir(mode=0o700, exist_ok=True)
        give_to_sandbox(scratch)
        workspace = None
        if spec.workspace is not None:
            workspace = self._layout.workspace(spec.workspace)
            give_to_sandbox(workspace)
        return command.Mounts(agent, scratch, workspace)

    async def _hello(self, spawned: Spawned, channel: SocketChannel) -> None:
        answer: Frame | None = None
        with suppress(FleetError, TimeoutError):
            async with asyncio.timeout(_HELLO_SECONDS):
                await channel.send(Frame(frames.PING, {"nonce": 1}))
                answer = await channel.receive()
        if answer is None or answer.type != frames.PONG:
            await self._end(spawned, close=False)
            _log.warning("sandbox did not start: %s", spawned.diagnostics())
            raise spawned.failure()

    async def connect(self, name: str) -> SocketChannel:
        """Return the channel; see `SandboxProvider`."""
        return self._get(name).channel

    def _get(self, name: str) -> _Sandbox:
        try:
            return self._sandboxes[name]
        except KeyError:
            raise FleetError("LEASE_LOST", "The sandbox is gone.") from None

    async def stage(self, name: str, path: str, chunks: AsyncIterator[bytes], byte_size: int, sha256: str) -> str:
        """Write a file below the mount root; see `SandboxProvider`."""
        sandbox = self._get(name)
        await sandbox.folder.write(path, chunks, byte_size, sha256)
        return f"{sandbox.mount_root}/{path}"

    async def find(self, name: str, path: str, max_bytes: int) -> FoundFile:
        """Describe a file below the mount root; see `SandboxProvider`."""
        return await asyncio.to_thread(self._get(name).folder.find, path, max_bytes)

    def read(self, name: str, file: FoundFile) -> AsyncIterator[bytes]:
        """Read a file that was found; see `SandboxProvider`."""
        return _in_thread(self._get(name).folder.read(file))

    def _workspace(self, workspace: str) -> Folder:
        path = self._layout.workspace(workspace)
        give_to_sandbox(path)
        return Folder(path, self._owner)

    async def resolve(self, workspace: str, paths: list[str], max_files: int, max_bytes: int) -> list[FoundFile]:
        """Expand workspace paths; see `SandboxProvider`."""
        return await asyncio.to_thread(self._workspace(workspace).expand, paths, max_files, max_bytes)

    def read_workspace(self, workspace: str, file: FoundFile) -> AsyncIterator[bytes]:
        """Read a workspace's file; see `SandboxProvider`."""
        return _in_thread(self._workspace(workspace).read(file))

    async def destroy(self, name: str) -> None:
        """End a sandbox and remove its scratch; see `SandboxProvider`."""
        sandbox = self._sandboxes.pop(name, None)
        if sandbox is not None:
            await sandbox.channel.close()
            await self._end(sandbox.spawned)
            await asyncio.to_thread(self._remove_files, name)
        else:
            await self._end_by_name(name)

    async def _end(self, spawned: Spawned, *, close: bool = True) -> None:
        spawned.kill()
        try:
            async with asyncio.timeout(_KILL_SECONDS):
                await spawned.wait()
        except TimeoutError:
            spawned.kill_monitor()
            await spawned.wait()
        if close:
            spawned.close()

    async def _end_by_name(self, name: str) -> None:
        """End what an ended broker, or a start that was broken off, left of a sandbox; then remove its files."""
        mark = marker.read(self._layout.marker(name))
        if mark is not None:
            await marker.end(mark, _KILL_SECONDS)
        # The files stay while a process does, so that the sandbox is found again.
        if await census.end(name, _KILL_SECONDS):
            await asyncio.to_thread(self._remove_files, name)

    def _remove_files(self, name: str) -> None:
        # The marker goes last: as long as anything is left, the sandbox is found again.
        _remove_tree(self._layout.scratch(name))
        _remove_tree(self._layout.sandbox(name))

    async def confirm_absent(self, name: str) -> bool:
        """Return whether no process and no file is left; see `SandboxProvider`."""
        if name in self._sandboxes or self._layout.sandbox(name).exists():
            return False
        return not await asyncio.to_thread(census.find, name)

    async def list_owned(self) -> list[OwnedSandbox]:
        """Return the sandboxes below the data root; see `SandboxProvider`."""
        owned = []
        for folder in self._layout.sandboxes.iterdir():
            mark = marker.read(folder / "marker.json")
            created = mark.created if mark else datetime.fromtimestamp(folder.stat().st_mtime, UTC)
            owned.append(OwnedSandbox(folder.name, created))
        return owned

    async def health(self) -> ProviderHealth:
        """Start and end a sandbox; see `SandboxProvider`."""
        name = f"probe-{secrets.token_hex(8)}"
        try:
            await self.create(SandboxSpec(name, Kind.CHILD))
        except FleetError as error:
            return ProviderHealth(False, error.message)
        await self.destroy(name)
        return ProviderHealth(True, ISOLATION)

    async def close(self) -> None:
        """End every sandbox that this process made; see `SandboxProvider`."""
        await asyncio.gather(*(self.destroy(name) for name in list(self._sandboxes)))


def _remove_tree(folder: Path) -> None:
    """Remove a folder in which no process works any more, also what model code protected from its owner."""
    if not folder.exists():
        return
    for parent, names, _ in os.walk(folder):
        for path in (os.path.join(parent, name) for name in names):
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder)


async def _in_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk
