"""Fleet as a person runs it: processes of the `fleet` command on a data root of their own."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.e2e.rest_client import Rest
from tests.fakes.planned_llm import Plans

ROOT = Path(__file__).resolve().parents[2]
FLEET = Path(sys.executable).with_name("fleet")
READY_SECONDS = 90.0
STOP_SECONDS = 40.0


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a process of a test may see."""
    return {
        "PATH": f"{FLEET.parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        **more,
    }


@dataclass
class Deployment:
    """A running `fleet up` and what its tests reach it with.

    Attributes:
        process: the process.
        rest: its gateway.
        addresses: of its services, by name.
        gate: lets the answer to QUESTION-WAIT go.
        plans: takes the steps of a Turn or child.
        data_root: where it keeps everything.
    """

    process: FleetProcess
    rest: Rest
    addresses: dict[str, Any]
    gate: threading.Event
    plans: Plans
    data_root: Path


class FleetProcess:
    """One `fleet …` process that says when it is ready in a JSON line."""

    def __init__(self, arguments: list[str], home: Path, env: dict[str, str]) -> None:
        self._log = home / f"{'-'.join(arguments[:2])}-{os.urandom(3).hex()}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(FLEET), *arguments], env=env, cwd=home, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ready(self) -> dict[str, Any]:
        """The ready line."""
        try:
            line = self._lines.get(timeout=READY_SECONDS)
        except queue.Empty:
            line = ""
        if not line:
            self.kill()
            raise AssertionError(f"not ready: {self.log()}")
        found: dict[str, Any] = json.loads(line)
        assert found["event"] == "ready", found
        return found

    def log(self) -> str:
        """The end of the process's standard error."""
        return self._log.read_text(errors="replace")[-4000:]

    def stop(self) -> int:
        """End it as an operator does; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not stop: {self.log()}") from None
        finally:
            self._close()

    def kill(self) -> None:
        """End it as a power cut does."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)
        self._close()

    def _close(self) -> None:
        self._reader.join(5)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def __enter__(self) -> FleetProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.kill()


def up(home: Path, *arguments: str, **env: str) -> FleetProcess:
    """`fleet up` on free ports; keep the process, ask it for `ready()`."""
    free = [f"--set=services.{name}.address=127.0.0.1:0" for name in ("session", "sandbox", "recursion", "offline")]
    command = ["up", "--json", "--port", "0", "--data-root", str(home / "data"), *free, *arguments]
    return FleetProcess(command, home, environment(home, **env))


def run_fleet(home: Path, *arguments: str, timeout: float = 150, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a `fleet` command to its end."""
    return subprocess.run(
        [str(FLEET), *arguments],
        env=environment(home, **env),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def sandbox_processes(data_root: Path) -> list[int]:
    """Process ids of sandboxes that belong to `data_root`, by their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if b"bwrap" in command and str(data_root).encode() in command:
            found.append(int(entry.name))
    return found
