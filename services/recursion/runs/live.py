"""The runs of children on this replica: owned by tasks that no caller's connection ends."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.logging import get_logger
from services.recursion.budget.changes import Changes
from services.recursion.budget.ledger import Ledger
from services.recursion.children.ports import Brokers, lost
from services.recursion.children.run import ChildRun, Means, Place
from services.recursion.children.states import Call
from services.recursion.children.tasks import Task
from services.recursion.runs.active import ActiveTurn
from services.recursion.runs.batch import run_batch
from services.recursion.runs.log import RunLog

_log = get_logger(__name__)


class _TurnRuns:
    """A Turn with the logs and tasks of its calls, by call id."""

    def __init__(self, active: ActiveTurn) -> None:
        self.active = active
        self.logs: dict[str, RunLog] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}


class Runs:
    """Every run of this replica. All of it belongs to one event loop."""

    def __init__(self, means: Means, brokers: Brokers, changes: Changes, parallel: int, clock: Clock) -> None:
        """Begin without runs.

        Args:
            means: what children's runs work with.
            brokers: gives each Turn its broker.
            changes: is told when a run ends.
            parallel: children of a Turn that run at one moment.
            clock: tells how much time is left.
        """
        self._means = means
        self._brokers = brokers
        self._changes = changes
        self._parallel = parallel
        self._clock = clock
        self._turns: dict[str, _TurnRuns] = {}

    def turn(self, ledger: Ledger) -> ActiveTurn:
        """The Turn's state on this replica, made when it isn't there."""
        known = self._turns.get(ledger.turn)
        if known is None:
            broker = self._brokers.of(ledger.workspace, ledger.session, ledger.turn)
            known = _TurnRuns(ActiveTurn(ledger, broker, self._parallel, self._clock))
            self._turns[ledger.turn] = known
        return known.active

    def turns(self) -> list[str]:
        """Ids of the Turns with state here."""
        return list(self._turns)

    def find(self, turn: str, call_id: str) -> RunLog | None:
        """The log of a call that runs or ran here."""
        known = self._turns.get(turn)
        return None if known is None else known.logs.get(call_id)

    def start(self, ledger: Ledger, call: Call, tasks: Sequence[Task], place: Place) -> RunLog:
        """Start a call's children in a task of their own, and return the call's log."""
        active = self.turn(ledger)
        state, log = self._turns[ledger.turn], RunLog()
        runs = [
            ChildRun(child, task, place, active, self._means, log)
            for child, task in zip(call.children, tasks, strict=True)
        ]
        state.logs[call.id] = log
        work = asyncio.create_task(self._run(runs, active, log), name=f"children of call {call.id}")
        state.tasks[call.id] = work
        work.add_done_callback(lambda _: self._ended(state, call))
        return log

    def stop_turn(self, turn: str, cause: FleetError) -> None:
        """Stop a Turn's children."""
        known = self._turns.get(turn)
        if known is not None:
            known.active.stop(cause)

    def forget(self, turn: str) -> None:
        """Drop a Turn whose ledger has ended, unless something of it still runs."""
        known = self._turns.get(turn)
        if known is not None and not known.tasks:
            del self._turns[turn]

    def children(self) -> set[str]:
        """Ids of the children whose rows this replica is about to write."""
        return {child for state in self._turns.values() for child in state.active.running}

    def lose(self, taken: Collection[str]) -> None:
        """Stop every Turn of which another replica has taken over a running child."""
        for turn, state in self._turns.items():
            gone = state.active.running.intersection(taken)
            if gone:
                _log.error("children were taken over by another replica", turn=turn, children=sorted(gone))
                state.active.stop(lost(min(gone)))

    async def stop(self, seconds: float) -> None:
        """Give runs that long to end, stop those that didn't, and return when all have ended."""
        tasks = [task for state in self._turns.values() for task in state.tasks.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for state in self._turns.values():
            state.active.stop(_shutting_down())
        if late:
            await asyncio.wait(late, timeout=self._means.limits.grace_seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, runs: Sequence[ChildRun], active: ActiveTurn, log: RunLog) -> None:
        try:
            log.close(await run_batch(runs, active))
        except FleetError as error:
            log.close(error)
        finally:
            log.close(_shutting_down())

    def _ended(self, state: _TurnRuns, call: Call) -> None:
        state.tasks.pop(call.id, None)
        self._changes.notify(call.turn)


def _shutting_down() -> FleetError:
    """Why children are stopped at shutdown: their caller attaches again elsewhere, where their outcomes are read."""
    return FleetError("UNAVAILABLE", "The service is shutting down.")
