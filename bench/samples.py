"""Samples of several peers, taken in turns so that a busy machine slows all of them alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Measure = Callable[[], float]
"""Does the work once and returns the measured value."""


@dataclass(frozen=True)
class Row:
    """One peer's samples of one case.

    Attributes:
        peer: who was measured.
        samples: the value of each round from the first on, in the case's unit; a slow peer may sit out the later ones.
    """

    peer: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median sample."""
        return statistics.median(self.samples)


@dataclass(frozen=True)
class Case:
    """A finished case.

    Attributes:
        name: what was done.
        unit: of the samples, such as "ms" or "Turns/s".
        rows: one a peer; the first is the reference of the ratios.
        notes: what a reader has to know.
    """

    name: str
    unit: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def ratio(self, row: Row) -> float:
        """The median of the ratios `row` ÷ reference of the rounds that both took part in."""
        return statistics.median(self._ratios(row))

    def spread(self, row: Row) -> tuple[float, float]:
        """The least and the greatest ratio of a round."""
        ratios = self._ratios(row)
        return min(ratios), max(ratios)

    def _ratios(self, row: Row) -> list[float]:
        return [mine / other for mine, other in zip(row.samples, self.rows[0].samples, strict=False)]


@dataclass
class Interleaved:
    """Takes samples round by round; the first peer added is the reference.

    Attributes:
        rounds: how many rounds there are.
    """

    rounds: int
    _measures: dict[str, tuple[Measure, int]] = field(default_factory=dict)

    def add(self, peer: str, measure: Measure, rounds: int | None = None) -> None:
        """Add a peer.

        Args:
            peer: its name.
            measure: takes one sample.
            rounds: in how many of the rounds it takes part, from the first on; all by default.
        """
        self._measures[peer] = (measure, self.rounds if rounds is None else min(rounds, self.rounds))

    def run(self, name: str, unit: str, notes: Sequence[str] = ()) -> Case:
        """Take all samples; each round begins with another peer, so that none always follows the same one."""
        samples: dict[str, list[float]] = {peer: [] for peer in self._measures}
        for number in range(self.rounds):
            for peer in _rotated(self._measures, number):
                measure, rounds = self._measures[peer]
                if number < rounds:
                    samples[peer].append(measure())
        rows = tuple(Row(peer, tuple(values)) for peer, values in samples.items())
        return Case(name, unit, rows, tuple(notes))


def _rotated(peers: Mapping[str, object], by: int) -> list[str]:
    names = list(peers)
    turn = by % len(names)
    return names[turn:] + names[:turn]
