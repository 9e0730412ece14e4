"""The worker processes as their callers see them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.processes import ROOT, JsonProcess, cpu_seconds, tree
from bench.programs import HELLO


class Worker:
    """A process that measures when it is asked to; use it as a context manager."""

    def __init__(self, process: JsonProcess) -> None:
        self._process = process

    def seconds(self, op: str, **arguments: Any) -> float:
        """Have an operation done and measured; returns its seconds."""
        return float(self._process.ask(op=op, **arguments)["result"])

    def steps(self, code: str, repeats: int) -> Sequence[float]:
        """Run an interpreter step a number of times; returns the seconds of each."""
        samples: list[float] = self._process.ask(op="step", code=code, repeats=repeats)["result"]
        return samples

    @contextmanager
    def crowd(self, size: int) -> Iterator[None]:
        """Keep `size` interpreters, each in a thread of its own."""
        self._process.ask(op="gather", size=size)
        try:
            yield
        finally:
            self._process.ask(op="disperse")

    def processes(self) -> set[int]:
        """Ids of its process and those that it has started."""
        return tree([self._process.process.pid])

    def interpreters(self) -> set[int]:
        """Ids of the processes that it has started."""
        return self.processes() - {self._process.process.pid}

    def cpu_seconds(self) -> float:
        """Processor time used so far."""
        return cpu_seconds(self.processes())

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def dspy_worker(kind: str, model_url: str, folder: Path) -> Worker:
    """Start `dspy.RLM` on `kind` of interpreter, "exec" or "deno"; returns after its first answer."""
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", **deno_env()}
    log = folder / f"{kind}.log"
    worker = Worker(JsonProcess("bench.peers.dspy_worker", kind, model_url, str(folder), log=log, env=env))
    try:
        worker.seconds("turn", question=HELLO, reuse=True)
    except RuntimeError:
        worker.close()
        raise
    return worker


def broker_worker(address: str, folder: Path) -> Worker:
    """Start Fleet's interpreter on the sandbox service at `address`."""
    return Worker(JsonProcess("bench.peers.broker_worker", address, log=folder / "broker.log"))


def prepare_deno(folder: Path) -> None:
    """Let Deno download what it needs.

    Raises:
        RuntimeError: why it can't be used.
    """
    command = [sys.executable, "-m", "bench.peers.deno_interpreter", str(folder)]
    env = {**os.environ, **deno_env()}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["Deno can't be used"])[-1])


def deno_env() -> dict[str, str]:
    """Where Deno keeps what it has downloaded: below the virtual environment unless `DENO_DIR` says otherwise."""
    return {"DENO_DIR": os.environ.get("DENO_DIR", str(Path(sys.prefix) / "deno"))}
