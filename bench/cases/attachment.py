"""A Turn whose sandbox reads a whole text document."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from bench.documents import MEGABYTE, document, lines
from bench.lineup import DENO, FLOOR, Fleet, Lineup
from bench.peers.worker import Worker
from bench.processes import peak_mb
from bench.programs import READ_ATTACHMENT, READ_VARIABLE
from bench.samples import Case, Interleaved, Measure, Row

_ROUNDS = 3
_SIZES = (1, 10, 50)
_DENO_ROUNDS = {1: (2, 1), 10: (1, 0)}
"""Rounds of a reused and of a fresh Deno by MB: from a second upwards each."""

_FULL_DENO_ROUNDS = {1: (2, 2), 10: (2, 1), 50: (1, 1)}


def measure(peers: Lineup, *, full: bool) -> list[Case]:
    """Measure each size, and the memory that its interpreter had at most.

    Args:
        peers: who takes part.
        full: whether Deno takes part with every size, which takes minutes.
    """
    deno_rounds = _FULL_DENO_ROUNDS if full else _DENO_ROUNDS
    salts = itertools.count(1)
    cases: list[Case] = []
    with ExitStack() as stack:
        sessions = [(fleet, stack.enter_context(fleet.session())) for fleet in peers.fleets]
        for size in _SIZES:
            readers = [_Reader(fleet, session, size, salts) for fleet, session in sessions]
            rounds = deno_rounds.get(size, (0, 0))
            cases.append(_turns(peers, readers, size, salts, rounds))
            cases.append(_peak(peers, size, with_deno=any(rounds)))
    return cases


class _Reader:
    """Turns of one Session, each about a document of its own, so that each is staged anew."""

    def __init__(self, fleet: Fleet, session: str, size: int, salts: Iterator[int]) -> None:
        self._fleet = fleet
        self._session = session
        self._size = size * MEGABYTE
        self._salts = salts
        self._with_upload: list[float] = []

    @property
    def name(self) -> str:
        """How reports name it."""
        return self._fleet.name

    def turn(self) -> float:
        """Upload a document and run a Turn about it; returns the ms of the Turn."""
        content = document(self._size, next(self._salts)).encode()
        begin = time.perf_counter()
        attachment = self._fleet.grpc.upload(content)
        upload = time.perf_counter() - begin
        turn = self._fleet.ask(self._session, READ_ATTACHMENT, (attachment,), str(lines(self._size)))
        self._with_upload.append(1000 * (upload + turn))
        return 1000 * turn

    def with_upload(self) -> Row:
        """The same rounds with their uploads."""
        return Row(f"{self.name}, its upload included", tuple(self._with_upload))


def _turns(peers: Lineup, readers: list[_Reader], size: int, salts: Iterator[int], deno: tuple[int, int]) -> Case:
    plan = Interleaved(_ROUNDS)
    for reader in readers:
        plan.add(reader.name, reader.turn)
    plan.add(FLOOR, _variable(peers.floor, size, salts, reuse=True))
    if peers.deno is not None:
        for name, reuse, rounds in ((f"{DENO} reused", True, deno[0]), (f"{DENO} fresh", False, deno[1])):
            if rounds:
                plan.add(name, _variable(peers.deno, size, salts, reuse=reuse), rounds)
    case = plan.run(f"Turn that reads a {size} MB text", "ms", _notes(peers, deno))
    return replace(case, rows=(*case.rows, *(reader.with_upload() for reader in readers)))


def _notes(peers: Lineup, deno: tuple[int, int]) -> list[str]:
    notes = ["dspy.RLM is given the text in memory, as an input."]
    if peers.deno is not None and not any(deno):
        notes.append("Deno takes part in a full run.")
    return notes


def _variable(worker: Worker, size: int, salts: Iterator[int], *, reuse: bool) -> Measure:
    read = partial(worker.seconds, "read", question=READ_VARIABLE, size=size * MEGABYTE, reuse=reuse)
    return lambda: 1000 * read(salt=next(salts))


def _peak(peers: Lineup, size: int, *, with_deno: bool) -> Case:
    rows = [Row(fleet.name, (peak_mb(fleet.deployment.sandboxes()),)) for fleet in peers.fleets]
    if peers.deno is not None and with_deno:
        rows.append(Row(f"{DENO} reused", (peak_mb(peers.deno.interpreters()),)))
    return Case(f"Peak memory of the interpreter that read {size} MB", "MB", tuple(rows))
