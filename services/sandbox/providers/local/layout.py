"""Where the local provider keeps things, and what a sandbox sees of the machine."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from services.common.errors import FleetError
from services.sandbox.agent.limits import Limits as AgentLimits
from services.sandbox.files.paths import split

PYTHON = "/opt/python"
AGENT = "/opt/fleet"
WORKSPACE = "/workspace"
SCRATCH = "/scratch"
INSIDE_UID = 1000
OUTSIDE_UID = 61_234
"""Owner of sandbox processes and files on this machine when the broker runs as root; no account needs to exist."""


@dataclass(frozen=True)
class LocalLimits:
    """What a sandbox may use; see `policy.sandbox.local`.

    Attributes:
        cpu_seconds: Processor seconds of a process in one execution.
        memory_mb: MiB of memory, of a process and of all together.
        processes: Processes and threads at the same time.
        files_mb: MiB of one file, and of the private /tmp.
        grace_seconds: How long interrupted code may take to end before it is killed.
    """

    cpu_seconds: int = 600
    memory_mb: int = 2048
    processes: int = 64
    files_mb: int = 1024
    grace_seconds: float = 2.0


class Layout:
    """Folders below the data root.

    Args:
        data_root: `policy.storage.data_root`.
    """

    def __init__(self, data_root: Path) -> None:
        root = data_root.absolute()
        self.runtime = root / "sandbox" / "runtime"
        self.sandboxes = root / "sandbox" / "local"
        self.workspaces = root / "workspaces"

    def prepare(self) -> None:
        """Make the folders; only this user may list them."""
        for folder in (self.runtime, self.sandboxes, self.workspaces):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def sandbox(self, name: str) -> Path:
        """Return a sandbox's own folder."""
        return self.sandboxes / _segment(name)

    def scratch(self, name: str) -> Path:
        """Return the folder behind a sandbox's /scratch."""
        return self.sandbox(name) / "scratch"

    def marker(self, name: str) -> Path:
        """Return the file that says which processes a sandbox has."""
        return self.sandbox(name) / "marker.json"

    def workspace(self, workspace: str) -> Path:
        """Return the folder behind a Root's /workspace."""
        return self.workspaces / _segment(workspace)


def _segment(name: str) -> str:
    segments = split(name)
    if len(segments) != 1 or name.startswith("."):
        raise FleetError("PATH_INVALID", "The name can't be the name of a folder.")
    return name


@cache
def drops_privileges() -> bool:
    """Return whether the broker runs as root, so that sandboxes need another user.

    Root of a user namespace that has no other user is an ordinary user outside, and treated as one.
    """
    if os.geteuid() != 0:
        return False
    ranges = [[int(word) for word in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(inside <= OUTSIDE_UID < inside + length for inside, _, length in ranges)


def give_to_sandbox(folder: Path) -> None:
    """Make a folder that the sandbox's user owns."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    if drops_privileges():
        os.chown(folder, OUTSIDE_UID, OUTSIDE_UID)


def python_executable() -> str:
    """Return the path inside a sandbox of the Python that the broker runs on.

    Raises:
        FleetError: `SANDBOX_ISOLATION_UNAVAILABLE` when it isn't below its own prefix.
    """
    prefix = Path(sys.base_prefix)
    name = f"bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    if not (prefix / name).exists():
        raise FleetError("SANDBOX_ISOLATION_UNAVAILABLE", f"The Python installation has no {name}.")
    if drops_privileges() and not prefix.stat().st_mode & stat.S_IXOTH:
        raise FleetError(
            "SANDBOX_ISOLATION_UNAVAILABLE", "The Python installation can't be read by other users; allow it (o+rX)."
        )
    return f"{PYTHON}/{name}"


def agent_limits(limits: LocalLimits) -> dict[str, int]:
    """Return the limits as the agent takes them."""
    return {name: getattr(limits, name) for name in AgentLimits.__slots__}
