"""The life of one Turn from its preparation to its one terminal event."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.logging import get_logger
from services.session.runner import TurnRecord
from services.session.running.background import BackgroundTasks
from services.session.running.invocation import Invocation, InvocationParts
from services.session.running.preparation import PreparationParts, Prepared, TurnPreparation
from services.session.running.residents.resident import SessionKey
from services.session.running.residents.runtime import on_behalf_of
from services.session.running.settlement import Ledger, settle, settled_commit
from services.session.running.window import turn_window
from services.session.turns.spending import Spent
from services.session.turns.turn import Commit, TurnEnd, TurnError, TurnJob, TurnState

if TYPE_CHECKING:
    from services.session.running.residents.resident import Resident
    from services.session.running.residents.runtime import TurnRuntime

_log = get_logger(__name__)

_LET_GO_SECONDS = 0.5
"""How long a Turn that is called off waits for its own work to end before it goes on without it."""

_END_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses between attempts to store a Turn's end; the recovery at the next start settles what is left."""

_STATES = {"TURN_CANCELLED": TurnState.CANCELLED, "TURN_TIMED_OUT": TurnState.TIMED_OUT}


@dataclass(frozen=True)
class RunParts:
    """What running a Turn needs.

    Attributes:
        preparation: for step 2.
        invocation: for steps 3 to 5.
        wrap_up_seconds: the policy's time for the answer.
        settle_seconds: the policy's time for settlement.
        clock: the time.
    """

    preparation: PreparationParts
    invocation: InvocationParts
    wrap_up_seconds: float
    settle_seconds: float
    clock: Clock


class TurnRun:
    """Runs one Turn. Whatever happens, it ends with exactly one terminal event, or with its ownership lost."""

    def __init__(self, job: TurnJob, record: TurnRecord, parts: RunParts, background: BackgroundTasks) -> None:
        """A run that has not begun.

        Args:
            job: the Turn.
            record: where everything about it is written.
            parts: what it is run with.
            background: owns what outlives the Turn.
        """
        self._job = job
        self._record = record
        self._parts = parts
        self._background = background
        self._key = SessionKey(job.workspace, job.turn.session)
        self._window = turn_window(job.deadline, job.turn.limits.seconds, parts.wrap_up_seconds, parts.clock)
        self._preparation = TurnPreparation(job, record, self._window, parts.preparation)
        self._ledger = Ledger(job.turn.id, job.epoch, parts.preparation.recursion)
        self._invocation: Invocation | None = None
        self._stopping = asyncio.Event()
        self._failure: FleetError | None = None
        self._decided = False

    @property
    def session(self) -> str:
        """The Session's id."""
        return self._job.turn.session

    def stop(self, failure: FleetError) -> None:
        """Call the Turn off because of `failure`; the first call counts, and a commit that has begun wins."""
        if self._decided or self._failure is not None:
            return
        self._failure = failure
        if self._invocation is not None:
            self._invocation.cancel(failure)
        self._stopping.set()

    async def run(self) -> None:
        """Run the Turn to its end; never raises for a Turn that fails."""
        with on_behalf_of(self._key):
            try:
                commit = await self._supervise()
                self._decided = True
                await self._commit(commit)
            except FleetError as error:
                await self._fail(error)
            except Exception:  # noqa: BLE001  Whatever went wrong, the Turn gets its last event.
                _log.exception("turn failed inside the server", turn=self._job.turn.id)
                await self._fail(FleetError("INTERNAL", "The Turn failed inside the server."))
            finally:
                self._preparation.undo("the Turn before was broken off")

    async def _supervise(self) -> Commit:
        """Do the work until it is done, called off or out of time.

        Raises:
            FleetError: why there is no answer.
        """
        work = asyncio.create_task(self._work(), name=f"work of turn {self._job.turn.id}")
        stopping = asyncio.create_task(self._stopping.wait(), name="stop of a turn")
        try:
            left = max(0.0, self._window.deadline - self._parts.clock.monotonic())
            await asyncio.wait({work, stopping}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                self.stop(FleetError("TURN_TIMED_OUT", "The Turn reached its deadline without an answer."))
                work.cancel()
                await asyncio.wait({work}, timeout=_LET_GO_SECONDS)
            if self._failure is not None:
                raise self._failure
            return work.result()
        finally:
            stopping.cancel()
            work.cancel()
            if not _is_over(work):
                self._background.spawn(_over(work), "end of a turn's work")

    async def _work(self) -> Commit:
        """Steps 2 to 6: prepare, run, validate, settle."""
        await self._record.enter(TurnState.PREPARING, "opening the budget and the sandbox")
        prepared = await self._preparation.prepare()
        watch = asyncio.create_task(self._watch(prepared.checkout.resident), name="watch of a turn's lease")
        try:
            return await self._answer(prepared)
        finally:
            watch.cancel()

    async def _answer(self, prepared: Prepared) -> Commit:
        await self._record.enter(TurnState.RUNNING, "the Root works")
        self._invocation = Invocation(
            self._job, self._record, self._window, prepared, self._parts.invocation, self.stop
        )
        outcome = await self._invocation.run()
        await self._record.enter(TurnState.SETTLING, "settling the children and the outputs")
        outputs = self._invocation.check(outcome)
        left = self._window.deadline - self._parts.clock.monotonic()
        lines = await settle(prepared.books, min(self._parts.settle_seconds, left))
        await self._invocation.finish(lines)
        return settled_commit(outcome, outputs, self._invocation.spent())

    async def _watch(self, resident: Resident[TurnRuntime]) -> None:
        await resident.lost.wait()
        self.stop(FleetError("INTERPRETER_FAILED", f"The Turn can't go on: {resident.reason}."))

    async def _commit(self, commit: Commit) -> None:
        """Step 7. A failed commit fails the Turn."""
        try:
            await self._record.commit(commit)
        except FleetError as error:
            if error.reason in ("OWNERSHIP_LOST", "COMMIT_FAILED"):
                raise
            raise FleetError("COMMIT_FAILED", "The answer could not be committed.") from error
        except Exception as error:
            _log.exception("turn not committed", turn=self._job.turn.id)
            raise FleetError("COMMIT_FAILED", "The answer could not be committed.") from error
        self._preparation.keep()

    async def _fail(self, failure: FleetError) -> None:
        """Step 8: everything ends, the runtime is tainted, and the Turn gets its last event."""
        self._decided = True
        state = _STATES.get(failure.reason, TurnState.FAILED)
        if self._invocation is not None:
            await self._invocation.abandon(failure)
        self._preparation.undo(f"the Turn before ended as {state}: {failure.reason}")
        if self._preparation.opening:
            lines = await self._ledger.abort(self._background)
            if self._invocation is not None:
                self._invocation.settled(lines)
        spent = Spent() if self._invocation is None else self._invocation.spent()
        await self._end(TurnEnd(state, TurnError(failure.reason, failure.message), spent))

    async def _end(self, end: TurnEnd) -> None:
        """Store the end; a database that is out of reach is tried again for a while."""
        for pause in (*_END_PAUSES, None):
            try:
                await self._record.end(end)
                return
            except FleetError as error:
                if error.reason == "OWNERSHIP_LOST":
                    _log.warning("turn has another owner", turn=self._job.turn.id)
                    return
                _log.warning("end of a turn not stored", turn=self._job.turn.id, reason=error.reason)
            except Exception:  # noqa: BLE001  Whatever the database says, the end is to be stored.
                _log.warning("end of a turn not stored", turn=self._job.turn.id, exc_info=True)
            if pause is not None:
                await asyncio.sleep(pause)
        _log.error("end of a turn left to recovery", turn=self._job.turn.id)


def _is_over(work: asyncio.Task[Commit]) -> bool:
    """Whether work has ended. What it raised after it was called off counts for nothing and is not complained about."""
    if work.done() and not work.cancelled():
        work.exception()
    return work.done()


async def _over(work: asyncio.Task[Commit]) -> None:
    """Wait for work that was called off; its late results are dropped."""
    await asyncio.wait({work})
    _is_over(work)
