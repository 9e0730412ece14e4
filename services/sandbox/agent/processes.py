"""Worker processes: forked from the supervisor, watched by descriptor, ended with everything they started."""

from __future__ import annotations

import _socket
import os
import time

from .limits import Limits, confine_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
else:
    import _signal

_REAP_SECONDS = 2.0
_PIPE_BYTES = 1 << 18


class WorkerProcess:
    """One generation of the worker and the supervisor's ends of its pipes.

    Attributes:
        pid: Its process id.
        socket: The supervisor's end of the control socket; it says which process wrote.
        control: Its descriptor.
        stdout: Descriptor of what it prints.
        stderr: Descriptor of what it prints as errors.
        exit_status: Wait status once it was reaped.
    """

    def __init__(self, pid: int, socket: _socket.socket, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.socket = socket
        self.control = socket.fileno()
        self.stdout = stdout
        self.stderr = stderr
        self.exit_status: int | None = None

    def close(self) -> None:
        """Close the supervisor's ends."""
        self.socket.close()
        for descriptor in (self.stdout, self.stderr):
            os.close(descriptor)


def fork_worker(run: Callable[[int], None], limits: Limits) -> WorkerProcess:
    """Fork a worker whose only way to the supervisor is its own control socket.

    Args:
        run: Called in the worker with the descriptor of its control socket; the process ends when it returns.
        limits: Applied in the worker before `run`.

    Raises:
        OSError: No process can be made.
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    ours.setblocking(False)
    ours.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)
    worker_control = theirs.detach()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        for descriptor in (worker_control, out_read, out_write, err_read, err_write):
            os.close(descriptor)
        raise
    if pid == 0:
        try:
            _enter_worker(worker_control, out_write, err_write, limits)
            run(_WORKER_CONTROL)
        except BaseException as error:  # noqa: BLE001 - the last words of a process that ends here
            os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        finally:
            os._exit(70)
    for descriptor in (worker_control, out_write, err_write):
        os.close(descriptor)
    for descriptor in (out_read, err_read):
        os.set_blocking(descriptor, False)
    return WorkerProcess(pid, ours, out_read, err_read)


_WORKER_CONTROL = 3


def _enter_worker(control: int, out: int, err: int, limits: Limits) -> None:
    _signal.set_wakeup_fd(-1)
    for signum in (_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(signum, _signal.SIG_DFL)
    init = os.getppid() == 1
    os.setsid()
    # High numbers first: one of the targets may be in use as a source.
    control, out, err = (os.dup2(descriptor, 900 + index) for index, descriptor in enumerate((control, out, err)))
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.dup2(control, _WORKER_CONTROL, inheritable=False)
    os.closerange(_WORKER_CONTROL + 1, 1024)
    confine_worker(limits, init)


def kill_everything(worker: WorkerProcess) -> None:
    """Kill the worker and all that it started, whatever sessions they made, and reap them."""
    if os.getpid() == 1:
        _send(-1, _signal.SIGKILL)
    else:
        _send(worker.pid, _signal.SIGKILL)
        for pid in descendants():
            _send(pid, _signal.SIGKILL)
    deadline = time.monotonic() + _REAP_SECONDS
    while time.monotonic() < deadline:
        if reap(worker):
            return
        for pid in () if os.getpid() == 1 else descendants():
            _send(pid, _signal.SIGKILL)
        # Processes that are not children yet, orphans on their way here, end without a signal to wait for.
        time.sleep(0.0005)


def end_leftovers(worker: WorkerProcess) -> int:
    """Kill what the worker started, but not the worker; return how many processes that were."""
    stopped: set[int] = set()
    # A stopped process can't fork: after a round that finds nobody new, all of them can be killed.
    while new := set(descendants()) - stopped - {worker.pid}:
        for pid in new:
            _send(pid, _signal.SIGSTOP)
        stopped |= new
    for pid in stopped:
        _send(pid, _signal.SIGKILL)
    return len(stopped)


def _send(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return


def started() -> list[int]:
    """Return the worker and all that it started.

    In a process namespace of its own that is everybody else; without one, other programs' processes are visible too.
    """
    own = os.getpid()
    if own != 1:
        return descendants()
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != own]


def descendants() -> list[int]:
    """Return all processes below this one; orphans come here because it is their subreaper."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parents[int(entry)] = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found = {os.getpid()}
    grown = True
    while grown:
        below = {pid for pid, parent in parents.items() if parent in found}
        grown = not below <= found
        found |= below
    return sorted(found - {os.getpid()})


def reap(worker: WorkerProcess) -> bool:
    """Collect ended processes; return whether none is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        if pid == worker.pid:
            worker.exit_status = status
