"""Turns on many Sessions at once, and what a Session that waits for its next Turn takes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from bench.lineup import DENO, FLOOR, Fleet, Lineup
from bench.peers.worker import Worker
from bench.processes import resident_mb
from bench.programs import WARM
from bench.samples import Case, Interleaved, Measure, Row

_ROUNDS = 2
_TURNS = {8: 2, 32: 1}
"""Turns of each Session in one round, by the number of Sessions."""

_MOST_DENOS = 8


@dataclass
class _Crowd:
    """One deployment's Sessions, each asked by a thread of its own."""

    fleet: Fleet
    sessions: list[str]

    def run(self, turns: int) -> float:
        """Run `turns` Turns in every Session; returns Turns a second."""
        begin = time.perf_counter()
        with ThreadPoolExecutor(len(self.sessions)) as threads:
            list(threads.map(lambda session: [self.fleet.ask(session, WARM) for _ in range(turns)], self.sessions))
        return len(self.sessions) * turns / (time.perf_counter() - begin)


def measure(peers: Lineup, *, full: bool) -> list[Case]:
    """Measure 8 and 32 Sessions.

    Args:
        peers: who takes part.
        full: whether 32 Denos take part, which takes minutes and gigabytes.
    """
    return [case for size in _TURNS for case in _crowds(peers, size, with_deno=full or size <= _MOST_DENOS)]


def _crowds(peers: Lineup, size: int, *, with_deno: bool) -> list[Case]:
    turns = _TURNS[size]
    deno = peers.deno if with_deno else None
    resident: list[Row] = []
    with ExitStack() as stack:
        plan = Interleaved(_ROUNDS)
        for fleet in peers.fleets:
            before = resident_mb(fleet.deployment.processes())
            crowd = _Crowd(fleet, [stack.enter_context(fleet.session()) for _ in range(size)])
            crowd.run(1)
            resident.append(Row(fleet.name, ((resident_mb(fleet.deployment.processes()) - before) / size,)))
            plan.add(fleet.name, partial(crowd.run, turns))
        plan.add(FLOOR, _worker_crowd(stack, peers.floor, size, turns))
        if deno is not None:
            before = resident_mb(deno.processes())
            plan.add(f"{DENO} reused", _worker_crowd(stack, deno, size, turns))
            resident.append(Row(f"{DENO} reused", ((resident_mb(deno.processes()) - before) / size,)))
        notes = [] if with_deno or peers.deno is None else ["Deno takes part in a full run."]
        rate = plan.run(f"Turns a second, {size} Sessions at once", "Turns/s", notes)
    return [rate, Case(f"Memory of one more resident Session, {size} at once", "MB", tuple(resident))]


def _worker_crowd(stack: ExitStack, worker: Worker, size: int, turns: int) -> Measure:
    stack.enter_context(worker.crowd(size))
    worker.seconds("crowd", question=WARM, turns=1)
    return lambda: size * turns / worker.seconds("crowd", question=WARM, turns=turns)
