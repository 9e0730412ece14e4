"""Start of the supervisor."""

from __future__ import annotations

import os

from . import wire_json
from .host import HostChannel
from .limits import Limits, become, protect_supervisor
from .supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal


def main(configuration: bytes) -> None:
    """Serve the host on descriptors 0 and 1 until they close.

    Args:
        configuration: JSON object with uid, gid, mount_root, grace_seconds and limits (cpu_seconds, memory_mb,
            processes, files_mb).
    """
    options = wire_json.loads(configuration)
    become(options["uid"], options["gid"])
    protect_supervisor()
    reader, writer = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    supervisor = Supervisor(
        HostChannel(reader, writer),
        Limits(**options["limits"]),
        options["mount_root"],
        options["grace_seconds"],
        _child_signal(),
    )
    supervisor.serve()


def _child_signal() -> int:
    """Return a descriptor that becomes readable when a child process ends."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    _signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGCHLD, _ignore)
    for signum in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGPIPE):
        _signal.signal(signum, _signal.SIG_IGN)
    return read


def _ignore(signum: int, frame: object) -> None:
    """Only the wake-up descriptor matters."""
