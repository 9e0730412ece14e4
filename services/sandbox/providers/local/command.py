"""The bubblewrap command line of a sandbox."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from services.sandbox import bundle
from services.sandbox.providers.local.layout import (
    AGENT,
    INSIDE_UID,
    PYTHON,
    SCRATCH,
    WORKSPACE,
    LocalLimits,
    agent_limits,
    drops_privileges,
    python_executable,
)

SHARED_MEMORY_BYTES = 64 << 20

_SYSTEM_LINKS = ("/bin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FOLDERS = ("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/share/zoneinfo")
# bubblewrap makes missing parents for its own user only.
_PARENTS = ("/etc", "/opt", "/usr", "/usr/share")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives")

ACCOUNTS = {
    "etc/passwd": f"sandbox:x:{INSIDE_UID}:{INSIDE_UID}::/tmp:/bin/sh\n".encode(),
    "etc/group": f"sandbox:x:{INSIDE_UID}:\n".encode(),
}


@dataclass(frozen=True)
class Mounts:
    """Folders of this machine that a sandbox sees.

    Attributes:
        agent: The installed bundle.
        scratch: Behind /scratch.
        workspace: Behind /workspace; None for a child.
    """

    agent: Path
    scratch: Path
    workspace: Path | None

    @property
    def root(self) -> str:
        """The mount root: where staged files lie inside."""
        return WORKSPACE if self.workspace is not None else SCRATCH


def arguments(name: str, mounts: Mounts, limits: LocalLimits) -> list[str]:
    """Return bubblewrap's arguments, up to and with the program inside.

    Args:
        name: The sandbox's name; it also marks the processes.
        mounts: What the sandbox sees.
        limits: What it may use.
    """
    # bubblewrap applies mounts in the order given; the root and /dev are made read-only last.
    return [
        *_isolation(name),
        *_environment(mounts.root),
        *_system(),
        *_read_only(mounts),
        *_writable(mounts, limits),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", mounts.root, "--"),
        *(python_executable(), "-I", "-S", f"{AGENT}/{bundle.START}", name, _configuration(mounts.root, limits)),
    ]


def _isolation(name: str) -> list[str]:
    inside = "0" if drops_privileges() else str(INSIDE_UID)
    arguments = ["--unshare-all", "--unshare-user", "--uid", inside, "--gid", inside, "--hostname", name]
    if drops_privileges():
        # Root enters as root of the new namespace, opens the mounts, and the agent's first act is to give that up.
        arguments += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return [*arguments, "--die-with-parent", "--new-session", "--as-pid-1"]


def _environment(root: str) -> list[str]:
    values = {
        "PATH": f"{PYTHON}/bin:/usr/bin:/bin",
        "HOME": "/tmp",  # noqa: S108 - the sandbox's own
        "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        # An arena a thread would use up the address space that the memory limit counts.
        "MALLOC_ARENA_MAX": "2",
        "FLEET_MOUNT_ROOT": root,
    }
    if any(Path(sys.base_prefix, "lib").glob("libpython*.so*")):
        values["LD_LIBRARY_PATH"] = f"{PYTHON}/lib"
    result = ["--clearenv"]
    for key, value in values.items():
        result += ["--setenv", key, value]
    return result


def _system() -> list[str]:
    result: list[str] = []
    for path in _PARENTS:
        result += ["--perms", "0755", "--dir", path]
    for path in (*_SYSTEM_FOLDERS, *_SYSTEM_FILES):
        result += ["--ro-bind-try", path, path]
    for path in _SYSTEM_LINKS:
        if os.path.islink(path):
            result += ["--symlink", os.readlink(path), path]
        else:
            result += ["--ro-bind-try", path, path]
    return result


def _read_only(mounts: Mounts) -> list[str]:
    result = ["--ro-bind", sys.base_prefix, PYTHON, "--ro-bind", str(mounts.agent), AGENT]
    for name in ACCOUNTS:
        result += ["--ro-bind", str(mounts.agent / name), f"/{name}"]
    return result


def _writable(mounts: Mounts, limits: LocalLimits) -> list[str]:
    files_bytes = str(limits.files_mb << 20)
    result = ["--perms", "1777", "--size", files_bytes, "--tmpfs", "/tmp"]  # noqa: S108 - the sandbox's own
    result += ["--proc", "/proc", "--dev", "/dev"]
    result += ["--perms", "1777", "--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108 - as above
    result += ["--bind", str(mounts.scratch), SCRATCH]
    if mounts.workspace is not None:
        result += ["--bind", str(mounts.workspace), WORKSPACE]
    return result


def _configuration(root: str, limits: LocalLimits) -> str:
    options = {
        "uid": INSIDE_UID,
        "gid": INSIDE_UID,
        "mount_root": root,
        "grace_seconds": limits.grace_seconds,
        "limits": agent_limits(limits),
    }
    return json.dumps(options, separators=(",", ":"))
