"""Child processes that speak JSON lines, and what a tree of processes uses."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS = 15.0


class JsonProcess:
    """A `python -m …` process that answers a JSON line with a JSON line; use it as a context manager."""

    def __init__(self, module: str, *arguments: str, log: Path, env: Mapping[str, str] | None = None) -> None:
        """Start it; its first line is `hello`.

        Args:
            module: the module to run.
            arguments: its arguments.
            log: where its standard error goes.
            env: variables beside this process's own.

        Raises:
            RuntimeError: it ended before its first line, which is named by its log.
        """
        self._log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env={**os.environ, **(env or {})},
            )
        try:
            self.hello = self._line()
        except RuntimeError:
            self.close()
            raise

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            RuntimeError: the process failed.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._line()

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of the benchmark ended: {self._log.read_text(errors='replace')[-1500:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def tree(roots: list[int]) -> set[int]:
    """`roots` and all processes below them."""
    children: dict[int, list[int]] = {}
    for pid, stat in _stats():
        children.setdefault(int(stat[1]), []).append(pid)
    found, waiting = set(), list(roots)
    while waiting:
        pid = waiting.pop()
        found.add(pid)
        waiting += children.get(pid, [])
    return found


def resident_mb(pids: set[int]) -> float:
    """Memory of `pids` in MB; pages that several share count once."""
    return sum(_field_kb(pid, "smaps_rollup", "Pss:") or _field_kb(pid, "status", "VmRSS:") for pid in pids) / 1000


def peak_mb(pids: set[int]) -> float:
    """The greatest memory that any one of `pids` ever had, in MB."""
    return max((_field_kb(pid, "status", "VmHWM:") for pid in pids), default=0) / 1000


def cpu_seconds(pids: set[int]) -> float:
    """Processor time that `pids` and their ended children have used."""
    return sum(sum(map(int, stat[11:15])) for pid, stat in _stats() if pid in pids) / _TICKS


def _stats() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name in parentheses may hold anything; the fields begin after it.
                yield int(entry.name), (entry / "stat").read_text().rpartition(")")[2].split()


def _field_kb(pid: int, file: str, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0
