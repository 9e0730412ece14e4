"""What running a child needs from outside: a broker of sandboxes and an engine that runs an RLM in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from services.common.errors import FleetError
from services.recursion.children.outcomes import ResultFile
from services.recursion.children.tasks import StagedFile
from services.rlm.budget.gate import BudgetGate
from services.rlm.events import EventSink
from services.rlm.models.usage import ModelUse


@dataclass(frozen=True)
class Sandbox:
    """A leased sandbox.

    Attributes:
        lease: "leases/{id}".
        epoch: the lease's epoch.
        endpoint: address of the broker replica that holds it; empty for the broker's own.
        mount_root: absolute path inside the sandbox below which staged files lie.
    """

    lease: str
    epoch: int
    endpoint: str = ""
    mount_root: str = ""


@dataclass(frozen=True)
class Collected:
    """A file that was read from a sandbox, checked against its hash."""

    path: str
    data: bytes
    sha256: str


class Broker(Protocol):
    """The sandbox broker as one Turn may use it. Every method raises FleetError."""

    async def resolve(self, paths: Sequence[str], max_files: int, max_bytes: int) -> list[StagedFile]:
        """Expand files and folders of the workspace into a manifest; both paths of an entry are the workspace's."""
        ...

    async def acquire(self, child: str) -> Sandbox:
        """Wait for a CHILD sandbox of that child's own; asked again for the same child, it is the same one."""
        ...

    async def keep(self, sandbox: Sandbox) -> None:
        """Prolong a lease until cancelled or until the lease can't be prolonged."""
        ...

    async def stage(self, sandbox: Sandbox, files: Sequence[StagedFile], folder: str) -> list[str]:
        """Copy files, each from where it says, into a folder of a sandbox; returns their absolute paths, in order."""
        ...

    async def collect(self, sandbox: Sandbox, paths: Sequence[str], max_bytes: int) -> list[Collected]:
        """Read declared files of a sandbox, at most `max_bytes` in all; links are refused."""
        ...

    async def deliver(self, root: Sandbox, folder: str, files: Sequence[Collected]) -> list[ResultFile]:
        """Write files into a folder of the Root's sandbox; their paths are as in `files`."""
        ...

    async def remove(self, child: str) -> bool:
        """Remove every sandbox of a child; returns whether all of them are confirmed gone."""
        ...


class Brokers(Protocol):
    """Gives each Turn its broker."""

    def of(self, workspace: str, session: str, turn: str) -> Broker:
        """The broker as that Turn's children may use it."""
        ...


@dataclass(frozen=True)
class Job:
    """One child's RLM run.

    Attributes:
        child: the child's id.
        turn: its Turn's id.
        workspace: the workspace of both.
        session: their Session's id.
        sandbox: where its code runs.
        inputs: the Signature's inputs.
        gate: grants what it spends.
        sink: takes its events.
        deadline: when it ends at the latest, `time.monotonic()` seconds.
    """

    child: str
    turn: str
    workspace: str
    session: str
    sandbox: Sandbox
    inputs: Mapping[str, JsonValue]
    gate: BudgetGate
    sink: EventSink
    deadline: float


@dataclass(frozen=True)
class Answer:
    """What a child's RLM gave: typed outputs, "submit" or "extract", and the steps it took."""

    outputs: Mapping[str, JsonValue]
    termination: str
    iterations: int


class Running(Protocol):
    """A child's RLM, made for one run."""

    async def run(self) -> Answer:
        """Run to the end; cancelling it stops models and sandbox code within a second.

        Raises:
            FleetError: why there is no answer.
        """
        ...

    def usage(self) -> Sequence[ModelUse]:
        """What its model calls have used so far."""
        ...


class Engine(Protocol):
    """Runs child RLMs."""

    async def open(self) -> None:
        """Pay what the first child would otherwise wait for."""
        ...

    async def close(self) -> None:
        """End what is still running."""
        ...

    def prepare(self, job: Job) -> Running:
        """Make a child's RLM without running it."""
        ...


def lost(child: str) -> FleetError:
    """The end of a child that another replica took over."""
    return FleetError("OWNERSHIP_LOST", "Another replica took the child over.", {"child": child})
