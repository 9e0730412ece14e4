"""Markers: which processes belong to a sandbox, told safely after the broker that made them is gone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from services.sandbox.providers.local.readable import readable


@dataclass(frozen=True)
class Marker:
    """What is written when a sandbox starts.

    Attributes:
        name: The sandbox's name; its processes have it in their command line.
        pid: bubblewrap's process id.
        start_ticks: When that process started, in the kernel's ticks since boot.
        boot_id: Which boot of the machine this was.
        create_time: ISO 8601, UTC.
    """

    name: str
    pid: int
    start_ticks: int
    boot_id: str
    create_time: str

    @property
    def created(self) -> datetime:
        """When the sandbox was made."""
        return datetime.fromisoformat(self.create_time)


def write(path: Path, name: str, pid: int) -> None:
    """Write a marker whole or not at all."""
    marker = Marker(name, pid, _start_ticks(pid) or 0, _boot_id(), datetime.now(UTC).isoformat())
    temporary = path.with_suffix(".incoming")
    temporary.write_text(json.dumps(asdict(marker)))
    temporary.rename(path)


def read(path: Path) -> Marker | None:
    """Return the marker, or None when there is none or it can't be understood."""
    try:
        return Marker(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def is_alive(marker: Marker) -> bool:
    """Return whether the very process of the marker runs; a reused number is not mistaken for it."""
    if marker.boot_id != _boot_id() or _start_ticks(marker.pid) != marker.start_ticks:
        return False
    try:
        command = Path(f"/proc/{marker.pid}/cmdline").read_bytes()
    except OSError:
        return False
    return marker.name.encode() in command.split(b"\0")


async def end(marker: Marker, seconds: float) -> None:
    """Kill the marker's process, if it is still that one, and wait for its end; the sandbox dies with it.

    Args:
        marker: Read from the sandbox's folder.
        seconds: How long to wait; what isn't dead by then is for the caller to find out.
    """
    try:
        descriptor = os.pidfd_open(marker.pid)
    except ProcessLookupError:
        return
    try:
        # The descriptor pins the process, so what was verified is what gets the signal.
        if is_alive(marker):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            async with asyncio.timeout(seconds):
                await readable(descriptor)
    except (ProcessLookupError, TimeoutError):
        return
    finally:
        os.close(descriptor)


def _start_ticks(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    # A zombie runs no more.
    return None if fields[0] in "ZX" else int(fields[19])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
