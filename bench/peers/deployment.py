"""Fleet as it is deployed: everything in one process, or a process a service."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.processes import cpu_seconds, tree
from tests.e2e.deployment import FleetProcess, environment, free_port, up

_SERVICES = ("sandbox", "recursion", "session", "gateway")
_PROFILE = ("--profile", "local-provider", "--set=server.log_level=warning")


@dataclass(frozen=True)
class Deployment:
    """A running Fleet.

    Attributes:
        name: "in one process" or "a process a service".
        session: address of the session service.
        sandbox: address of the sandbox service.
        gateway: base URL of the gateway.
        roots: ids of its own processes; what they started is below them.
    """

    name: str
    session: str
    sandbox: str
    gateway: str
    roots: tuple[int, ...]

    def processes(self) -> set[int]:
        """Ids of all its processes, sandboxes included."""
        return tree(list(self.roots))

    def cpu_seconds(self) -> float:
        """Processor time that all its processes have used so far."""
        return cpu_seconds(self.processes())

    def sandboxes(self) -> set[int]:
        """Ids of its processes that are no service."""
        return self.processes() - set(self.roots)


@contextlib.contextmanager
def all_in_one(home: Path, model_url: str) -> Iterator[Deployment]:
    """`fleet up`, ready."""
    home.mkdir(parents=True)
    with up(home, *_PROFILE, FLEET_LLM_BASE_URL=model_url, FLEET_LLM_API_KEY="none") as process:
        ready = process.ready()
        yield Deployment("in one process", ready["session"], ready["sandbox"], ready["gateway"], (process.process.pid,))
        process.stop()


@contextlib.contextmanager
def separate(home: Path, model_url: str) -> Iterator[Deployment]:
    """`fleet serve` for every service, ready."""
    home.mkdir(parents=True)
    ports = {name: free_port() for name in _SERVICES}
    env = environment(home, FLEET_LLM_BASE_URL=model_url, FLEET_LLM_API_KEY="none")
    options = [*_PROFILE, f"--set=storage.data_root={home / 'data'}", f"--set=server.ports.gateway={ports['gateway']}"]
    options += [f"--set=services.{name}.address=127.0.0.1:{ports[name]}" for name in _SERVICES if name != "gateway"]
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(FleetProcess(["serve", name, *options], home, env)) for name in _SERVICES]
        ready = {name: process.ready()["address"] for name, process in zip(_SERVICES, processes, strict=True)}
        roots = tuple(process.process.pid for process in processes)
        yield Deployment("a process a service", ready["session"], ready["sandbox"], ready["gateway"], roots)
        for process in reversed(processes):
            process.stop()
