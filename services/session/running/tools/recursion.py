"""The Root's tools that start children: `rlm_query` and `rlm_query_batched`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.recursion.v1 import child_pb2, recursion_service_pb2
from pydantic import JsonValue

from services.common.errors import FleetError
from services.common.ids import new_id
from services.common.text import clean
from services.rlm.budget.gate import Dimension
from services.rlm.invocation.scope import InvocationScope
from services.rlm.tools import ToolDeclaration
from services.session.running.background import BackgroundTasks
from services.session.running.children.events import ChildBatch
from services.session.running.children.outcomes import model_usage, to_value, unreachable
from services.session.running.clients.recursion import TurnBooks
from services.session.running.tools.arguments import texts
from services.session.running.turn_events import Payload
from services.session.turns.spending import ModelUsage

MAX_TASKS = 64
"""Most tasks of one call."""

_SENT_CHARS = 50_000
_SENT_INPUTS = 256

ATTACH_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 3.0)
"""Seconds between attempts to attach again to a call whose connection broke."""

_OUTCOME = (
    "a dict with status (completed, failed, timed_out, cancelled or not_started), child_id, answer, evidence, gaps, "
    "result_files, source_manifest_sha256, termination, usage and error (None, or a dict with category and message)"
)
# Limits are told, not part of the schema: what breaks one is a failed outcome of that child, not a refused call.
_ARGUMENTS: Mapping[str, Mapping[str, JsonValue]] = {
    "task": {"type": "string", "description": "1 to 2,000 characters"},
    "inputs": {"type": "array", "items": {"type": "string"}, "description": "at most 16 paths", "default": []},
    "context": {"type": "string", "description": "at most 2,000 characters", "default": ""},
}

RLM_QUERY = ToolDeclaration(
    name="rlm_query",
    description=(
        "Runs one isolated child RLM on a task and returns its outcome: "
        f"{_OUTCOME}. inputs are relative paths of staged files or folders, such as an attachment's path or an "
        "earlier child's children/<k>/ folder; the child sees nothing else."
    ),
    parameters=_ARGUMENTS,
    counted=False,
)

RLM_QUERY_BATCHED = ToolDeclaration(
    name="rlm_query_batched",
    description=(
        "Runs several isolated child RLMs at once and returns their outcomes in input order, each as rlm_query "
        'returns it. queries is a list of {"task", "inputs", "context"}; inputs and context may be left out.'
    ),
    parameters={"queries": {"type": "array", "items": {"type": "object"}, "description": f"at most {MAX_TASKS}"}},
    counted=False,
)


@dataclass(frozen=True)
class RootLease:
    """The Root's sandbox, where result files of children go.

    Attributes:
        name: `leases/{id}`.
        epoch: its epoch.
        scratch_path: the Turn's scratch folder, relative to the mount root.
    """

    name: str
    epoch: int
    scratch_path: str


class RecursionTools:
    """The children of one Turn.

    A call is followed by a task of its own, so that a step that is interrupted does not lose the facts about children
    that go on; `close` ends them.
    """

    def __init__(
        self,
        books: TurnBooks,
        lease: RootLease,
        scope: InvocationScope,
        append: Callable[[Payload], None],
        attachments: Sequence[child_pb2.ChildAttachment] = (),
        pauses: Sequence[float] = ATTACH_PAUSES,
    ) -> None:
        """Begin without children.

        Args:
            books: the Turn's ledger.
            lease: the Root's sandbox.
            scope: the Turn's invocation, which is told of the budget.
            append: takes the events.
            attachments: what children get of the Turn's attachments, whatever the Root's code makes of its copies.
            pauses: seconds between attempts to attach again.
        """
        self._pauses = pauses
        self._books = books
        self._lease = lease
        self._scope = scope
        self._append = append
        self._attachments = attachments
        self._batches: list[ChildBatch] = []
        self._followers = BackgroundTasks("children of a Turn")
        self._usage: list[ModelUsage] = []

    @property
    def started(self) -> int:
        """How many children were started."""
        return sum(batch.started for batch in self._batches)

    @property
    def usage(self) -> tuple[ModelUsage, ...]:
        """What ended children used."""
        return tuple(self._usage)

    async def rlm_query(self, task: object, inputs: object = (), context: object = "") -> JsonValue:
        """Run one child and return its outcome.

        Raises:
            FleetError: an argument has the wrong type, the budget is spent, or the Turn is over.
        """
        outcomes = await self._run([_task({"task": task, "inputs": inputs, "context": context}, "the query")])
        return to_value(outcomes[0])

    async def rlm_query_batched(self, queries: object) -> JsonValue:
        """Run several children and return their outcomes in input order.

        Raises:
            FleetError: an argument has the wrong type, the budget is spent, or the Turn is over.
        """
        if not isinstance(queries, list | tuple):
            raise _wrong("queries must be a list of dicts with task, inputs and context.")
        if not queries:
            return []
        if len(queries) > MAX_TASKS:
            raise _wrong(f"queries has {len(queries)} items; at most {MAX_TASKS} are allowed.")
        tasks = [_task(query, f"queries[{index}]") for index, query in enumerate(queries)]
        return [to_value(outcome) for outcome in await self._run(tasks)]

    async def finish(self, seconds: float) -> None:
        """Wait up to `seconds` for the ends of children that a settled ledger has seen already, then `close`."""
        await self._followers.join(seconds)
        await self.close()

    async def close(self) -> None:
        """Stop following; children without an end are told as cancelled, with their clean-up pending."""
        await self._followers.close()
        for batch in self._batches:
            self._tell(batch.cancel())

    async def _run(self, tasks: list[child_pb2.ChildTask]) -> list[child_pb2.ChildOutcome]:
        self._scope.check()
        request = recursion_service_pb2.RunChildrenRequest(
            turn=self._books.turn,
            call_id=new_id(),
            tasks=tasks,
            root_lease=self._lease.name,
            root_epoch=self._lease.epoch,
            scratch_path=self._lease.scratch_path,
            attachments=self._attachments,
        )
        follower = self._followers.spawn(self._follow(request), "follow")
        try:
            return await asyncio.shield(follower)
        except FleetError as error:
            raise self._refused(error, len(tasks)) from error

    async def _follow(self, request: recursion_service_pb2.RunChildrenRequest) -> list[child_pb2.ChildOutcome]:
        """Follow a call to its outcomes, attaching again while its connection breaks."""
        batch = ChildBatch(tuple(task.task for task in request.tasks))
        self._batches.append(batch)
        outcomes = await self._attached(request, batch)
        self._tell(batch.outcomes(outcomes))
        for outcome in outcomes:
            self._usage.extend(model_usage(outcome.usage))
        await self._tell_budget()
        return outcomes

    async def _attached(
        self, request: recursion_service_pb2.RunChildrenRequest, batch: ChildBatch
    ) -> list[child_pb2.ChildOutcome]:
        for pause in (*self._pauses, None):
            told = False
            try:
                async for response in self._books.run_children(request):
                    if response.HasField("outcomes"):
                        return list(response.outcomes.outcomes)
                    self._tell(batch.translate(response.event))
                    if not told:
                        told = True
                        await self._tell_budget()
            except FleetError as error:
                if error.reason != "UNAVAILABLE":
                    raise
            if pause is not None:
                await asyncio.sleep(pause)
                batch.attached()
        return unreachable(batch.child_ids())

    async def _tell_budget(self) -> None:
        """Tell how much of the shared budget the children have spent."""
        try:
            lines = await self._books.budget()
        except FleetError:
            return  # The lines are told at the Turn's end in any case.
        for line in lines:
            if line.dimension in (Dimension.CHILD_CALLS, Dimension.LLM_CALLS):
                self._scope.noted(Dimension(line.dimension), line.used, line.limit)

    def _refused(self, error: FleetError, asked: int) -> FleetError:
        """What the model is told when no child was started."""
        if error.reason != "BUDGET_EXHAUSTED":
            return error
        dimension = Dimension(error.metadata.get("dimension", Dimension.CHILD_CALLS))
        used, limit = int(error.metadata.get("used", 0)), int(error.metadata.get("limit", 0))
        left = max(0, limit - used)
        if left and dimension is Dimension.CHILD_CALLS:
            message = f"The budget of {dimension} has {left} of {limit} left and this call asks for {asked}."
            return FleetError(error.reason, f"{message} Ask for at most {left}.", error.metadata)
        ends = self._scope.exhausted(dimension)
        advice = "No new work starts. Call SUBMIT with what you have." if ends else "Work without more children."
        return FleetError(
            error.reason, f"The budget of {dimension} is spent ({used} of {limit}). {advice}", error.metadata
        )

    def _tell(self, payloads: Iterable[Payload]) -> None:
        for payload in payloads:
            self._append(payload)


def _task(query: object, where: str) -> child_pb2.ChildTask:
    """One task as sent; content is judged by the recursion service, so that one bad task is one failed outcome."""
    if not isinstance(query, Mapping):
        raise _wrong(f"{where} must be a dict with task, inputs and context.")
    unknown = set(query) - set(_ARGUMENTS)
    if unknown:
        raise _wrong(f"{where} has keys besides task, inputs and context.")
    task, inputs, context = query.get("task"), texts(query.get("inputs", ())), query.get("context", "")
    if not isinstance(task, str) or not isinstance(context, str) or inputs is None:
        raise _wrong(f"{where}: task and context must be str and inputs a list of str.")
    # Longer texts are refused at a lower limit all the same; cutting them keeps the refusal an outcome.
    return child_pb2.ChildTask(
        task=clean(task[:_SENT_CHARS]),
        inputs=[clean(path) for path in inputs[:_SENT_INPUTS]],
        context=clean(context[:_SENT_CHARS]),
    )


def _wrong(message: str) -> FleetError:
    return FleetError("INVALID_ARGUMENT", message)
