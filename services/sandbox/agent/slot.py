"""The supervisor's worker: its process, its control socket, and its replacement when it is lost."""

from __future__ import annotations

import _socket
import os
import struct
import time

from . import frames, worker
from .frames import Frame
from .limits import Limits, cpu_time, grant_cpu
from .processes import WorkerProcess, end_leftovers, fork_worker, kill_everything, reap

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any
else:
    import _signal

_READ_BYTES = 1 << 16
_DRAIN_BYTES = 1 << 18
_MAX_UNREAD_BYTES = 16 << 20
_FORK_ATTEMPTS = 50
_PART_BYTES = 8 << 20
# What the kernel says about a writer: process, user and group.
_CREDENTIALS = struct.Struct("3i")
_CREDENTIALS_SPACE = _socket.CMSG_SPACE(_CREDENTIALS.size)
MAX_STILLBORN = 3


class WorkerLost(Exception):
    """No worker can be made."""


class WorkerSlot:
    """Always holds one worker process.

    Args:
        limits: What a worker may use.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stillborn = 0
        self._start()

    def _start(self) -> None:
        for attempt in range(_FORK_ATTEMPTS):
            try:
                self.process: WorkerProcess = fork_worker(worker.run, self._limits)
                break
            except OSError:
                time.sleep(0.002 * attempt)
        else:
            raise WorkerLost("the system makes no further process")
        self._decoder = frames.Decoder()
        self._pending = bytearray()
        self._sent_values: set[str] = set()
        self._closed: set[int] = set()

    def replace(self) -> str:
        """Kill the worker with all it started and make a fresh one; return how the old one ended.

        Raises:
            WorkerLost: Workers die before they are ready, or none can be made.
        """
        kill_everything(self.process)
        status = self.process.exit_status
        self.process.close()
        self._stillborn += 1
        if self._stillborn > MAX_STILLBORN:
            raise WorkerLost("the interpreter process dies at its start")
        self._start()
        return describe(status)

    def end_leftovers(self) -> None:
        """Kill what the worker started, but not the worker."""
        end_leftovers(self.process)

    def was_ready(self) -> None:
        """The worker said hello."""
        self._stillborn = 0

    def stop(self) -> None:
        """Kill the worker with all it started."""
        kill_everything(self.process)
        self.process.close()

    def reap(self) -> bool:
        """Collect ended processes; return whether the worker is among them."""
        reap(self.process)
        return self.process.exit_status is not None

    def interrupt(self) -> None:
        """Send SIGINT."""
        try:
            os.kill(self.process.pid, _signal.SIGINT)
        except ProcessLookupError:
            return

    def cpu(self) -> float:
        """Return the worker's processor seconds."""
        return cpu_time(self.process.pid)

    def grant_cpu(self) -> None:
        """Let the worker burn its processor seconds anew."""
        grant_cpu(self.process.pid, self._limits.cpu_seconds)

    # Frames.

    @property
    def has_pending(self) -> bool:
        """Whether bytes wait until the socket takes them."""
        return bool(self._pending)

    @property
    def congested(self) -> bool:
        """Whether the worker leaves so much unread that it can only be ill-meant."""
        return len(self._pending) > _MAX_UNREAD_BYTES

    def send(self, type_: int, control: dict[str, Any], body: bytes = b"") -> None:
        """Send a frame to the worker at the next `flush`."""
        self._pending += frames.encode(Frame(type_, control, body))

    def flush(self) -> None:
        """Write as much as the socket takes, without ever blocking."""
        try:
            while self._pending:
                del self._pending[: os.write(self.process.control, memoryview(self._pending)[:_READ_BYTES])]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            self._pending.clear()

    def send_value(self, sha256: str, data: bytes) -> None:
        """Send a value's bytes, once a worker."""
        if sha256 in self._sent_values:
            return
        self._sent_values.add(sha256)
        for start in range(0, max(len(data), 1), _PART_BYTES):
            part = data[start : start + _PART_BYTES]
            values = [{"sha256": sha256, "length": len(part), "byte_size": len(data)}]
            control = {"code_bytes": 0, "values": values, "dropped": [], "partial": True}
            self.send(frames.EXECUTE, control, part)

    def forget_values(self, hashes: set[str]) -> list[str]:
        """Return those of the hashes that the worker has and must drop."""
        known = sorted(hashes & self._sent_values)
        self._sent_values -= hashes
        return known

    def receive(self) -> list[Frame] | None:
        """Return the frames that arrived, or None when the socket is closed.

        Raises:
            FrameError: The bytes are no frames: model code wrote to the socket, or another process did.
        """
        try:
            data, credentials, _, _ = self.process.socket.recvmsg(_READ_BYTES, _CREDENTIALS_SPACE)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            return None
        if not data:
            return None
        if any(_CREDENTIALS.unpack(item)[0] != self.process.pid for _, _, item in credentials):
            raise frames.FrameError("another process than the worker wrote")
        return self._decoder.feed(data)

    def open_outputs(self) -> list[int]:
        """Return the output pipes that some process can still write to."""
        return [item for item in (self.process.stdout, self.process.stderr) if item not in self._closed]

    def drain(self, descriptor: int) -> bytes:
        """Return what waits in an output pipe, within a bound that an endless writer can't exceed."""
        parts: list[bytes] = []
        size = 0
        while size < _DRAIN_BYTES:
            try:
                data = os.read(descriptor, _READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                self._closed.add(descriptor)
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts)


def describe(status: int | None) -> str:
    """Say in words how a process ended."""
    if status is None:
        return "was replaced"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"was ended by {_SIGNAL_NAMES.get(number, f'signal {number}')}"
    return f"exited with code {os.WEXITSTATUS(status)}"


# Of two names for one number the first of the alphabet is the usual one.
_SIGNAL_NAMES = {
    getattr(_signal, name): name
    for name in reversed(dir(_signal))
    if name.startswith("SIG") and not name.startswith("SIG_")
}
