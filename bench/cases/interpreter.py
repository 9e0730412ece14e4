"""The interpreter without a model: its start, a step, and steps that call host tools."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from bench.lineup import DENO, FLOOR, Lineup
from bench.peers.worker import Worker
from bench.samples import Case, Interleaved, Measure

FLEET = "Fleet's sandbox over gRPC"
_ROUNDS = 3
_STARTS = 2
_REPEATS = 60
_STEPS = {
    "Step without a host tool": "x = 1",
    "Step with 1 host tool call": "ping(n=1)",
    "Step with 10 host tool calls": "for i in range(10):\n    ping(n=i)",
}


def measure(peers: Lineup) -> list[Case]:
    """Measure the start and each kind of step; a sample is the median of many steps."""
    workers = {FLEET: peers.broker, FLOOR: peers.floor}
    if peers.deno is not None:
        workers[DENO] = peers.deno
    start = _interleaved({name: _start(worker) for name, worker in workers.items()}, _STARTS)
    cases = [start.run("Start of an interpreter to its first step", "ms")]
    for name, code in _STEPS.items():
        plan = _interleaved({peer: _step(worker, code) for peer, worker in workers.items()}, _ROUNDS)
        cases.append(plan.run(name, "ms"))
    return cases


def _interleaved(measures: Mapping[str, Measure], rounds: int) -> Interleaved:
    plan = Interleaved(rounds)
    for name, measured in measures.items():
        plan.add(name, measured)
    return plan


def _start(worker: Worker) -> Measure:
    return lambda: 1000 * worker.seconds("start")


def _step(worker: Worker, code: str) -> Measure:
    return lambda: 1000 * statistics.median(worker.steps(code, _REPEATS))
