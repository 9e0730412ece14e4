"""Privileges and resource limits, set with the kernel's own interfaces."""

from __future__ import annotations

import ctypes
import os
import resource
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)


class Limits:
    """What the worker and everything it starts may use.

    Args:
        cpu_seconds: Processor seconds of a process during one execution.
        memory_mb: MiB of address space of a process, and of private memory of all processes together.
        processes: Processes and threads at the same time.
        files_mb: MiB of one written file.
    """

    __slots__ = ("cpu_seconds", "files_mb", "memory_mb", "processes")

    def __init__(self, cpu_seconds: int, memory_mb: int, processes: int, files_mb: int) -> None:
        self.cpu_seconds = cpu_seconds
        self.memory_mb = memory_mb
        self.processes = processes
        self.files_mb = files_mb


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def become(uid: int, gid: int) -> None:
    """Give up root for good, when the sandbox was entered as root of its user namespace."""
    if os.getuid() != 0:
        return
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def protect_supervisor() -> None:
    """Hide memory, descriptors and environment from processes of the same user, and adopt orphans.

    It also dies with the process that started it; that wish was lost when the user changed.
    """
    _prctl(_PR_SET_PDEATHSIG, 9)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_DUMPABLE, 0)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def confine_worker(limits: Limits, supervisor_is_init: bool) -> None:
    """Apply the limits to the calling process, for good, and make it an ordinary process again.

    Args:
        limits: What it may use.
        supervisor_is_init: Whether the end of the supervisor ends the whole process namespace anyway.
    """
    memory = limits.memory_mb << 20
    files = limits.files_mb << 20
    _lower(resource.RLIMIT_AS, memory)
    _lower(resource.RLIMIT_FSIZE, files)
    _lower(resource.RLIMIT_NPROC, limits.processes)
    _lower(resource.RLIMIT_NOFILE, 1024)
    _lower(resource.RLIMIT_MSGQUEUE, 0)
    _lower(resource.RLIMIT_MEMLOCK, 1 << 16)
    _prctl(_PR_SET_DUMPABLE, 1)
    if not supervisor_is_init:
        _prctl(_PR_SET_PDEATHSIG, 9)
    # When the machine runs out of memory, model-written code goes before anything else.
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def grant_cpu(pid: int, seconds: int) -> None:
    """Let a process burn so many processor seconds from here on; beyond them the kernel ends it."""
    used = int(cpu_time(pid)) + 1
    try:
        resource.prlimit(pid, resource.RLIMIT_CPU, (used + seconds, resource.RLIM_INFINITY))
    except ProcessLookupError:
        return


def cpu_time(pid: int) -> float:
    """Return the processor seconds of a process and its threads; 0 when it is gone."""
    try:
        # The kernel's clock id of another process's processor time.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def private_memory_bytes(pids: list[int]) -> int:
    """Return the private resident memory of processes; those that are gone count nothing."""
    page = resource.getpagesize()
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm") as file:
                fields = file.read().split()
        except OSError:
            continue
        total += (int(fields[1]) - int(fields[2])) * page
    return total
