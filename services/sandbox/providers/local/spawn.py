"""Starting bubblewrap, and the process that came of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from services.common.errors import FleetError
from services.sandbox.providers.local import seccomp
from services.sandbox.providers.local.layout import INSIDE_UID, OUTSIDE_UID, drops_privileges
from services.sandbox.providers.local.readable import readable

_STDERR_BYTES = 2_000
_INFO_BYTES = 4_096
_NAMESPACE_WORDS = ("namespace", "not permitted", "uid map", "gid map", "capset", "Permission denied")
_ADVICE = (
    "This machine forbids the namespaces that isolate model-written code. Allow unprivileged user namespaces "
    "(sysctl user.max_user_namespaces > 0, kernel.unprivileged_userns_clone = 1, "
    "kernel.apparmor_restrict_unprivileged_userns = 0); in a container also a seccomp profile with unshare and mount."
)


class Spawned:
    """A sandbox's processes, from the broker's side.

    Attributes:
        process: bubblewrap itself.
        socket: The broker's end of the agent's channel.
    """

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket, errors: int) -> None:
        self.process = process
        self.socket = channel
        self._init = -1
        self._errors = errors
        self._exited = os.pidfd_open(process.pid)

    async def wait(self) -> None:
        """Return when bubblewrap, and with it every process of the sandbox, has ended and was reaped."""
        await readable(self._exited)
        self.process.wait()

    def watch_init(self, pid: int) -> None:
        """Remember the sandbox's first process, by its number on this machine; its end ends all others."""
        with suppress(ProcessLookupError):
            self._init = os.pidfd_open(pid)

    def kill(self) -> None:
        """End every process of the sandbox; the kernel does so when the first of them ends."""
        if self._init < 0:
            self.process.kill()
        else:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)

    def kill_monitor(self) -> None:
        """End bubblewrap itself, which takes the sandbox with it."""
        self.process.kill()

    def failure(self) -> FleetError:
        """Explain why the sandbox didn't start. bubblewrap's own words name paths, so they are not repeated."""
        text = os.pread(self._errors, _STDERR_BYTES, 0).decode("utf-8", "replace")
        if any(word in text for word in _NAMESPACE_WORDS):
            return FleetError("SANDBOX_ISOLATION_UNAVAILABLE", _ADVICE)
        return FleetError("SANDBOX_START_FAILED", "The sandbox ended before its interpreter was ready.")

    def diagnostics(self) -> str:
        """Return what bubblewrap and the supervisor wrote as errors, for the log."""
        return os.pread(self._errors, _STDERR_BYTES, 0).decode("utf-8", "replace")

    def close(self) -> None:
        """Close the descriptors; the process must have ended."""
        self.socket.close()
        _close(self._exited, self._errors, self._init if self._init >= 0 else None)


async def spawn(binary: Path, arguments: list[str]) -> Spawned:
    """Start bubblewrap and, as root, give the sandbox its users.

    Raises:
        FleetError: `SANDBOX_ISOLATION_UNAVAILABLE` when bubblewrap can't be run.
    """
    ours, theirs = socket.socketpair()
    errors = os.memfd_create("sandbox-errors")
    info_read, info_write = os.pipe()
    map_read, map_write = os.pipe()
    rules = _rules()
    options = ["--info-fd", str(info_write)]
    options += ["--userns-block-fd", str(map_read)] if drops_privileges() else []
    options += ["--seccomp", str(rules)] if rules is not None else []
    try:
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - takes a millisecond; all arguments are the broker's own
            [str(binary), *options, *arguments],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=errors,
            pass_fds=[fd for fd in (info_write, map_read, rules) if fd is not None],
            # An interrupt from the terminal is for this process, which ends its sandboxes itself when it is time.
            start_new_session=True,
        )
    except OSError:
        _close(info_read, info_write, map_read, map_write, rules, errors)
        ours.close()
        raise FleetError("SANDBOX_ISOLATION_UNAVAILABLE", "bubblewrap can't be run on this machine.") from None
    finally:
        theirs.close()
    _close(info_write, map_read, rules)
    spawned = Spawned(process, ours, errors)
    try:
        init_pid = await _init_pid(info_read)
        if init_pid:
            spawned.watch_init(init_pid)
            _map_users(init_pid)
        os.write(map_write, b"1")
    except (BrokenPipeError, ProcessLookupError):
        # bubblewrap is gone; whoever waits for the agent finds out and asks why.
        return spawned
    except BaseException:
        spawned.kill_monitor()
        process.wait()
        spawned.close()
        raise
    finally:
        _close(info_read, map_write)
    return spawned


def _rules() -> int | None:
    program = seccomp.program()
    if program is None:
        return None
    descriptor = os.memfd_create("seccomp")
    os.write(descriptor, program)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _close(*descriptors: int | None) -> None:
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)


async def _init_pid(descriptor: int) -> int:
    """Return the pid that bubblewrap reports, or 0 when it ended without."""
    data = b""
    while not data.rstrip().endswith(b"}"):
        await readable(descriptor)
        part = os.read(descriptor, _INFO_BYTES)
        if not part:
            return 0
        data += part
    return int(json.loads(data)["child-pid"])


def _map_users(pid: int) -> None:
    """As root, map root, for opening the mounts, and the sandbox's user, as whom everything runs."""
    if not drops_privileges():
        return
    for kind in ("uid_map", "gid_map"):
        Path(f"/proc/{pid}/{kind}").write_text(f"0 0 1\n{INSIDE_UID} {OUTSIDE_UID} 1\n")
