"""A Turn of three steps and four Sub model calls in a Session that has answered before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from bench.lineup import DENO, FLOOR, Lineup
from bench.peers.worker import Worker
from bench.programs import WARM
from bench.samples import Case, Interleaved, Measure, Row

_ROUNDS = 10
_FRESH_ROUNDS = 2
_WARM_UPS = 2
_FRESH = f"{DENO} fresh"


class _Metered:
    """A measure in ms that also adds up the processor time its peer uses."""

    def __init__(self, seconds: Measure, cpu: Callable[[], float]) -> None:
        self._seconds = seconds
        self._cpu = cpu
        self._used: list[float] = []

    def warm_up(self) -> None:
        """Do the work without taking a sample."""
        for _ in range(_WARM_UPS):
            self._seconds()

    def __call__(self) -> float:
        before = self._cpu()
        seconds = self._seconds()
        self._used.append(self._cpu() - before)
        return seconds * 1000

    def row(self, peer: str) -> Row:
        """The mean of the processor time in ms: its clock ticks are too long for a median."""
        return Row(peer, (sum(self._used) / len(self._used) * 1000,))


def measure(peers: Lineup) -> list[Case]:
    """Measure the Turn, and the processor time that it takes."""
    with ExitStack() as stack:
        measures: dict[str, _Metered] = {}
        for fleet in peers.fleets:
            session = stack.enter_context(fleet.session())
            cpu = fleet.deployment.cpu_seconds
            measures[f"{fleet.name}, gRPC"] = _Metered(partial(fleet.ask, session, WARM), cpu)
            measures[f"{fleet.name}, REST + SSE"] = _Metered(partial(fleet.ask_rest, session, WARM), cpu)
        measures[FLOOR] = _of_worker(peers.floor, reuse=True)
        if peers.deno is not None:
            measures[f"{DENO} reused"] = _of_worker(peers.deno, reuse=True)
        for measured in measures.values():
            measured.warm_up()
        if peers.deno is not None:
            measures[_FRESH] = _of_worker(peers.deno, reuse=False)
        plan = Interleaved(_ROUNDS)
        for name, measured in measures.items():
            plan.add(name, measured, _FRESH_ROUNDS if name == _FRESH else None)
        turn = plan.run("Warm Turn: 3 steps, 4 Sub model calls", "ms")
    used = tuple(measured.row(name) for name, measured in measures.items())
    note = "All processes of a peer, without the client and the model; mean of the rounds."
    return [turn, Case("Processor time of the warm Turn", "ms", used, (note,))]


def _of_worker(worker: Worker, *, reuse: bool) -> _Metered:
    return _Metered(partial(worker.seconds, "turn", question=WARM, reuse=reuse), worker.cpu_seconds)
