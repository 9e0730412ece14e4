"""What a run of children has reported so far, for everyone who attaches to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from services.common.errors import FleetError
from services.recursion.children.outcomes import Outcome


@dataclass(frozen=True)
class Begun:
    """A child was started; `task` is cut at 200 characters."""

    index: int
    child_id: str
    task: str


@dataclass(frozen=True)
class Stepped:
    """A child's code of a step is about to run; `detail` is a few words of it."""

    index: int
    child_id: str
    iteration: int
    detail: str


@dataclass(frozen=True)
class Asked:
    """A model was asked on a child's behalf; the fields are those of `services.rlm.events.LmCompleted`."""

    index: int
    child_id: str
    model: str
    purpose: str
    prompt_tokens: int
    completion_tokens: int
    duration_ms: int
    error: str


@dataclass(frozen=True)
class Ended:
    """A child ended."""

    index: int
    outcome: Outcome


ChildFact = Begun | Stepped | Asked | Ended
"""Something a child did."""

Part = ChildFact | Sequence[Outcome]
"""What a caller of a run gets: facts, and at last all outcomes in input order."""


class RunLog:
    """An append-only list of facts with an end. All of it belongs to one event loop.

    It is bounded by what children may do: a handful of facts a step and a model call.
    """

    def __init__(self) -> None:
        self._facts: list[ChildFact] = []
        self._result: Sequence[Outcome] | FleetError | None = None
        self._changed = asyncio.Event()

    @property
    def closed(self) -> bool:
        """Whether the run is over."""
        return self._result is not None

    def append(self, fact: ChildFact) -> None:
        """Add a fact; ignored once the run is over."""
        if self._result is None:
            self._facts.append(fact)
            self._wake()

    def close(self, result: Sequence[Outcome] | FleetError) -> None:
        """End the run with all outcomes in input order, or with what was fatal to it; the first call counts."""
        if self._result is None:
            self._result = result
            self._wake()

    async def facts(self) -> AsyncIterator[ChildFact]:
        """Every fact from the first on, waiting for more until the run is over."""
        position = 0
        while True:
            changed = self._changed
            while position < len(self._facts):
                yield self._facts[position]
                position += 1
            if self.closed:
                return
            await changed.wait()

    def outcomes(self) -> Sequence[Outcome]:
        """All outcomes of a run that is over.

        Raises:
            FleetError: what was fatal to the run.
            RuntimeError: the run isn't over.
        """
        if self._result is None:
            raise RuntimeError("the run is not over")
        if isinstance(self._result, FleetError):
            raise self._result
        return self._result

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
