"""Everybody who is measured, started one after another; their cold starts are samples of a case."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers.deployment import Deployment, all_in_one, separate
from bench.peers.grpc_client import GrpcClient
from bench.peers.rest_client import RestClient
from bench.peers.worker import Worker, broker_worker, dspy_worker, prepare_deno
from bench.processes import JsonProcess
from bench.programs import ANSWERS, HELLO
from bench.samples import Case, Row

FLOOR = "dspy.RLM, exec (floor)"
DENO = "dspy.RLM, Deno"

Progress = Callable[[str], None]
"""Told what is being done."""


@dataclass(frozen=True)
class Fleet:
    """A deployment and its clients.

    Attributes:
        deployment: its processes and addresses.
        grpc: calls its session service.
        rest: calls its gateway.
    """

    deployment: Deployment
    grpc: GrpcClient
    rest: RestClient

    @property
    def name(self) -> str:
        """How reports name it."""
        return f"Fleet {self.deployment.name}"

    @contextlib.contextmanager
    def session(self) -> Iterator[str]:
        """A Session that is deleted at the end, sandbox and all; yields its name."""
        name = self.grpc.session()
        try:
            yield name
        finally:
            self.grpc.delete(name)

    def ask(self, session: str, question: str, attachments: tuple[str, ...] = (), expected: str = "") -> float:
        """Run a Turn over gRPC; returns its seconds.

        Raises:
            RuntimeError: the answer is wrong.
        """
        begin = time.perf_counter()
        _turn, answer = self.grpc.turn(session, question, attachments)
        return _checked(question, answer, expected or ANSWERS[question], begin)

    def ask_rest(self, session: str, question: str) -> float:
        """Run a Turn over REST and server-sent events; returns its seconds.

        Raises:
            RuntimeError: the answer is wrong.
        """
        begin = time.perf_counter()
        return _checked(question, self.rest.turn(session.rpartition("/")[2], question), ANSWERS[question], begin)


@dataclass
class Lineup:
    """Who is measured.

    Attributes:
        one: Fleet in one process, the reference of all ratios.
        many: Fleet as a process a service.
        floor: `dspy.RLM` without isolation.
        deno: stock `dspy.RLM`; None where there is no Deno.
        broker: Fleet's interpreter alone.
        cold: seconds from the start of a peer's processes to its first answer, by name.
        missing: why a peer doesn't take part.
    """

    one: Fleet
    many: Fleet
    floor: Worker
    deno: Worker | None
    broker: Worker
    cold: dict[str, float] = field(default_factory=dict)
    missing: str = ""

    @property
    def fleets(self) -> tuple[Fleet, Fleet]:
        """Both deployments."""
        return self.one, self.many

    def cold_start(self) -> Case:
        """The cold starts as a case."""
        rows = tuple(Row(name, (seconds * 1000,)) for name, seconds in self.cold.items())
        return Case("Cold start to the first answer", "ms", rows, ("One sample a peer, taken one after another.",))


@contextlib.contextmanager
def lineup(folder: Path, progress: Progress) -> Iterator[Lineup]:
    """Start everybody; end them at the end.

    Args:
        folder: an empty folder for data and logs.
        progress: told what is being started.
    """
    with ExitStack() as stack:
        url = stack.enter_context(JsonProcess("bench.model", log=folder / "model.log")).hello["base_url"]
        cold: dict[str, float] = {}

        def fleet(opened: contextlib.AbstractContextManager[Deployment]) -> Fleet:
            begin = time.perf_counter()
            deployment = stack.enter_context(opened)
            grpc = stack.enter_context(GrpcClient(deployment.session))
            found = Fleet(deployment, grpc, stack.enter_context(RestClient(deployment.gateway)))
            with found.session() as session:
                found.ask(session, HELLO)
                cold[found.name] = time.perf_counter() - begin
            return found

        def peer(name: str, kind: str) -> Worker:
            begin = time.perf_counter()
            worker = stack.enter_context(dspy_worker(kind, url, folder))
            cold[name] = time.perf_counter() - begin
            return worker

        progress("starting Fleet in one process")
        one = fleet(all_in_one(folder / "one", url))
        progress("starting Fleet, a process a service")
        many = fleet(separate(folder / "many", url))
        progress("starting dspy.RLM")
        floor = peer(FLOOR, "exec")
        deno, missing = None, ""
        try:
            prepare_deno(folder)
            deno = peer(DENO, "deno")
        except RuntimeError as error:
            missing = f"Stock dspy.RLM takes no part: {error}"
        broker = stack.enter_context(broker_worker(one.deployment.sandbox, folder))
        yield Lineup(one, many, floor, deno, broker, cold, missing)


def _checked(question: str, answer: str, expected: str, begin: float) -> float:
    seconds = time.perf_counter() - begin
    if answer != expected:
        raise RuntimeError(f"{question}: {answer!r} is not {expected!r}")
    return seconds
