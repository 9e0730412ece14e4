"""One child from its task to its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog
from pydantic import JsonValue

from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.logging import get_logger
from services.recursion.budget.books import Books
from services.recursion.children import failures, staging
from services.recursion.children.cleanup import Cleaner
from services.recursion.children.events import ChildSink
from services.recursion.children.gate import ChildGate, SharedGate
from services.recursion.children.outcomes import ChildFailed, ChildStatus, Cleanup, Failure, Outcome, read_findings
from services.recursion.children.ports import Answer, Engine, Job, Running, Sandbox
from services.recursion.children.results import harvest
from services.recursion.children.states import Child
from services.recursion.children.tasks import StagedFile, Task, check_task, manifest_sha256
from services.recursion.runs.active import ActiveTurn
from services.recursion.runs.log import Begun, Ended, RunLog
from services.recursion.store.children import ChildStore

_SHOWN_TASK_CHARS = 200
_ABANDON_SECONDS = 2.0
"""How long a stopped child's own code may take to let go before its outcome is told without it."""

_STOPPED = {"UNAVAILABLE": (ChildStatus.FAILED, "unavailable")}
"""What becomes of a child that its service, not its Turn, stops, by the reason."""

_log = get_logger(__name__)


@dataclass(frozen=True)
class Limits:
    """What one child may use.

    Attributes:
        max_iters: steps of its loop.
        max_llm_calls: its prompts.
        max_prompt_chars: characters of task, context and manifest together.
        grace_seconds: how long the clean-up may take before it counts as failed.
    """

    max_iters: int
    max_llm_calls: int
    max_prompt_chars: int
    grace_seconds: float


@dataclass(frozen=True)
class Means:
    """What every child's run works with."""

    children: ChildStore
    books: Books
    engine: Engine
    cleaner: Cleaner
    clock: Clock
    limits: Limits


@dataclass(frozen=True)
class Place:
    """The Turn's files around a call.

    Attributes:
        root: the Root's sandbox, where result files go.
        scratch_path: the Turn's scratch, relative to the Root's mount root.
        attachments: the Turn's attachments, with the keys of their bytes.
    """

    root: Sandbox
    scratch_path: str
    attachments: tuple[StagedFile, ...] = ()


class ChildRun:
    """Runs one child. Made for one run, on the server's event loop."""

    def __init__(self, child: Child, task: Task, place: Place, turn: ActiveTurn, means: Means, log: RunLog) -> None:
        """Make a run.

        Args:
            child: the child's row, held by this replica.
            task: what it is to do.
            place: where its files come from and its result files go.
            turn: its Turn.
            means: what it works with.
            log: takes what happens.
        """
        self._child = child
        self._task = task
        self._place = place
        self._turn = turn
        self._means = means
        self._log = log
        self._sink = ChildSink(child.position, child.id, log.append, asyncio.get_running_loop())
        self._started_at: float | None = None
        self._touched = False
        self._manifest = ""
        self._running: Running | None = None

    async def run(self) -> Outcome:
        """Run the child, in a task of its own, and write its outcome down.

        Raises:
            FleetError: one of `failures.FATAL`: what ends the whole call.
        """
        structlog.contextvars.bind_contextvars(child=self._child.id)
        self._turn.running.add(self._child.id)
        work = asyncio.create_task(self._work(), name=f"child {self._child.id}")
        try:
            outcome = await self._until_end(work)
        finally:
            work.cancel()
            self._turn.running.discard(self._child.id)
        return await self._conclude(outcome)

    async def _work(self) -> Outcome:
        check_task(self._task)
        async with self._turn.slots:
            place = self._place
            files = await staging.resolve(
                self._turn.broker,
                self._task,
                place.scratch_path,
                place.attachments,
                self._means.limits.max_prompt_chars,
            )
            self._manifest = manifest_sha256(files)
            sandbox = await self._acquire()
            keeper = asyncio.create_task(self._turn.broker.keep(sandbox), name=f"lease of child {self._child.id}")
            try:
                return await self._in(sandbox, files)
            finally:
                keeper.cancel()
                await asyncio.gather(keeper, return_exceptions=True)

    async def _in(self, sandbox: Sandbox, files: Sequence[StagedFile]) -> Outcome:
        inputs = await staging.stage(self._turn.broker, sandbox, files)
        answer = await self._ask(sandbox, inputs)
        findings = read_findings(answer.outputs)
        place = self._place
        results = await harvest(
            self._turn.broker, sandbox, findings, place.root, place.scratch_path, self._child.ordinal
        )
        outcome = self._outcome(ChildStatus.COMPLETED, None)
        return replace(
            outcome,
            findings=findings,
            files=results,
            termination=answer.termination,
            iterations=answer.iterations,
        )

    async def _acquire(self) -> Sandbox:
        await self._means.children.start(self._child)
        self._touched = True
        try:
            sandbox = await self._turn.broker.acquire(self._child.id)
        except FleetError as error:
            # Only a full broker says for certain that nothing was made.
            self._touched = error.reason != "SANDBOX_CAPACITY"
            raise failures.of_acquire(error) from error
        self._started_at = self._means.clock.monotonic()
        shown = self._task.task[:_SHOWN_TASK_CHARS]
        self._log.append(Begun(self._child.position, self._child.id, shown))
        return sandbox

    async def _ask(self, sandbox: Sandbox, inputs: list[JsonValue]) -> Answer:
        limits, ledger = self._means.limits, self._turn.ledger
        shared = SharedGate(self._means.books, self._child.turn, asyncio.get_running_loop())
        job = Job(
            child=self._child.id,
            turn=self._child.turn,
            workspace=ledger.workspace,
            session=ledger.session,
            sandbox=sandbox,
            inputs={"task": self._task.task, "context": self._task.context, "inputs": inputs},
            gate=ChildGate(shared, max_iters=limits.max_iters, max_llm_calls=limits.max_llm_calls),
            sink=self._sink,
            deadline=self._means.clock.monotonic() + self._turn.seconds_left,
        )
        self._running = self._means.engine.prepare(job)
        try:
            return await self._running.run()
        except FleetError as error:
            raise failures.of_run(error) from error

    async def _until_end(self, work: asyncio.Task[Outcome]) -> Outcome:
        """Wait for the work, the child's deadline or the Turn's end, whichever comes first."""
        stopped = asyncio.create_task(self._turn.stopped())
        try:
            await asyncio.wait({work, stopped}, timeout=self._turn.seconds_left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if work.done() and self._turn.cause is None:
            return self._read(work)
        work.cancel()
        _, late = await asyncio.wait({work}, timeout=_ABANDON_SECONDS)
        if late:
            _log.warning("child did not let go in time", child=self._child.id, turn=self._child.turn)
        elif not work.cancelled() and (error := work.exception()) is not None:
            _log.info("child failed while it was stopped", child=self._child.id, error=type(error).__name__)
        return self._interrupted()

    def _read(self, work: asyncio.Task[Outcome]) -> Outcome:
        if work.cancelled():
            return self._outcome(ChildStatus.FAILED, Failure("unavailable", "The child was interrupted."))
        try:
            return work.result()
        except ChildFailed as failed:
            return self._outcome(failed.status, failed.failure)
        except FleetError as error:
            if error.reason in failures.FATAL:
                raise
            known = failures.of_run(error)
            return self._outcome(known.status, known.failure)
        except Exception:  # noqa: BLE001 - logged, and the outcome of this child alone
            _log.exception("child failed unexpectedly", child=self._child.id, turn=self._child.turn)
            return self._outcome(ChildStatus.FAILED, Failure("unavailable", "The child failed unexpectedly."))

    def _interrupted(self) -> Outcome:
        cause, begun = self._turn.cause, self._started_at is not None
        if cause is None:
            status = ChildStatus.TIMED_OUT if begun else ChildStatus.NOT_STARTED
            return self._outcome(status, Failure("timeout", "The Turn's time for children was over."))
        ended, category = _STOPPED.get(cause.reason, (ChildStatus.CANCELLED, "cancelled"))
        return self._outcome(ended if begun else ChildStatus.NOT_STARTED, Failure(category, cause.message))

    def _outcome(self, status: ChildStatus, failure: Failure | None) -> Outcome:
        begun = self._started_at
        took = 0 if begun is None else round((self._means.clock.monotonic() - begun) * 1_000)
        return Outcome(
            status=status,
            child_id="" if begun is None else self._child.id,
            source_manifest_sha256=self._manifest,
            usage=tuple(self._running.usage()) if self._running else (),
            iterations=self._sink.iterations,
            cleanup=Cleanup.PENDING if self._touched else Cleanup.NONE,
            duration_ms=took,
            failure=failure,
        )

    async def _conclude(self, outcome: Outcome) -> Outcome:
        """Write the outcome down, then see the sandbox gone; only a child that was interrupted doesn't wait."""
        gone, refund = not self._touched, self._started_at is None
        await self._means.children.finish(self._child, outcome, gone=gone, refund=refund)
        confirmed = True
        if not gone:
            cleaning = self._means.cleaner.begin(self._turn.broker, self._child, outcome)
            if outcome.status in (ChildStatus.COMPLETED, ChildStatus.FAILED):
                confirmed = await self._confirmed(cleaning)
                outcome = replace(outcome, cleanup=Cleanup.CONFIRMED) if confirmed else outcome
        self._log.append(Ended(self._child.position, outcome))
        if not confirmed and self._turn.cause is None:
            message = "The sandbox of a child is not confirmed gone."
            raise FleetError("CHILDREN_UNRESOLVED", message, {"children": self._child.id})
        return outcome

    async def _confirmed(self, cleaning: asyncio.Task[bool]) -> bool:
        stopped = asyncio.create_task(self._turn.stopped())
        try:
            await asyncio.wait(
                {cleaning, stopped},
                timeout=self._means.limits.grace_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            stopped.cancel()
        return cleaning.done() and not cleaning.cancelled() and cleaning.result()
