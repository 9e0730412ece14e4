"""Protobuf to the service's own words and back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from fleet.common.v1 import budget_pb2, usage_pb2
from fleet.recursion.v1 import child_pb2, ledger_pb2, recursion_service_pb2
from fleet.sandbox.v1 import files_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from services.common.errors import FieldViolation, FleetError
from services.common.request_context import Principal
from services.common.text import clean
from services.recursion.budget.ledger import Ledger, LedgerState, Line
from services.recursion.children.outcomes import ChildStatus, Cleanup, Outcome
from services.recursion.children.ports import Sandbox
from services.recursion.children.run import Place
from services.recursion.children.tasks import StagedFile, Task
from services.recursion.runs.log import Asked, Begun, ChildFact, Part, Stepped
from services.recursion.service import ChildrenCall
from services.rlm.budget.gate import from_wire, to_wire
from services.rlm.models.usage import ModelUse

_STATES = {
    LedgerState.OPEN: ledger_pb2.LEDGER_STATE_OPEN,
    LedgerState.SETTLING: ledger_pb2.LEDGER_STATE_SETTLING,
    LedgerState.SETTLED: ledger_pb2.LEDGER_STATE_SETTLED,
    LedgerState.ABORTED: ledger_pb2.LEDGER_STATE_ABORTED,
}
_STATUSES = {
    ChildStatus.COMPLETED: child_pb2.CHILD_STATUS_COMPLETED,
    ChildStatus.FAILED: child_pb2.CHILD_STATUS_FAILED,
    ChildStatus.TIMED_OUT: child_pb2.CHILD_STATUS_TIMED_OUT,
    ChildStatus.CANCELLED: child_pb2.CHILD_STATUS_CANCELLED,
    ChildStatus.NOT_STARTED: child_pb2.CHILD_STATUS_NOT_STARTED,
}
_CLEANUPS = {
    Cleanup.NONE: child_pb2.CLEANUP_STATE_NONE,
    Cleanup.PENDING: child_pb2.CLEANUP_STATE_PENDING,
    Cleanup.CONFIRMED: child_pb2.CLEANUP_STATE_CONFIRMED,
}


def ledger_of(request: recursion_service_pb2.OpenTurnRequest, caller: Principal) -> Ledger:
    """The ledger that a request asks to open, in the caller's workspace.

    Raises:
        FleetError: INVALID_ARGUMENT when new work would end after the Turn.
    """
    deadline, work_deadline = _moment(request.deadline), _moment(request.work_deadline)
    if work_deadline > deadline:
        violation = FieldViolation("work_deadline", "must not be later than deadline")
        raise FleetError("INVALID_ARGUMENT", "New work can't end after the Turn.", violations=[violation])
    return Ledger(
        turn=request.turn,
        session=request.session,
        workspace=caller.workspace,
        epoch=request.epoch,
        state=LedgerState.OPEN,
        deadline=deadline,
        work_deadline=work_deadline,
        lines=tuple(Line(from_wire(line.dimension), limit=line.limit, used=line.used) for line in request.limits),
    )


def call_of(request: recursion_service_pb2.RunChildrenRequest) -> ChildrenCall:
    """The call for children that a request describes."""
    return ChildrenCall(
        turn=request.turn,
        call_id=request.call_id,
        tasks=tuple(Task(task.task, tuple(task.inputs), task.context) for task in request.tasks),
        place=Place(
            Sandbox(request.root_lease, request.root_epoch),
            request.scratch_path.strip("/"),
            tuple(
                StagedFile(file.path, file.path, file.byte_size, file.sha256, file.blob_key)
                for file in request.attachments
            ),
        ),
    )


def budget(ledger: Ledger, now: datetime, unresolved: Sequence[str]) -> ledger_pb2.Budget:
    """A Turn's books as they are at `now`."""
    message = ledger_pb2.Budget(
        turn=ledger.turn,
        state=_STATES[ledger.state],
        lines=[budget_line(line) for line in ledger.at(now)],
        unresolved_children=unresolved,
    )
    message.deadline.FromDatetime(ledger.deadline)
    return message


def budget_line(line: Line) -> budget_pb2.BudgetLine:
    """One dimension."""
    return budget_pb2.BudgetLine(dimension=to_wire(line.dimension), used=line.used, limit=line.limit)


def response(part: Part) -> recursion_service_pb2.RunChildrenResponse:
    """A fact of a run, or all its outcomes."""
    if isinstance(part, Sequence):
        outcomes = recursion_service_pb2.ChildOutcomes(outcomes=[outcome(each) for each in part])
        return recursion_service_pb2.RunChildrenResponse(outcomes=outcomes)
    return recursion_service_pb2.RunChildrenResponse(event=_event(part))


def outcome(given: Outcome) -> child_pb2.ChildOutcome:
    """A child's outcome."""
    message = child_pb2.ChildOutcome(
        status=_STATUSES[given.status],
        child_id=given.child_id,
        answer=given.findings.answer,
        evidence=given.findings.evidence,
        gaps=given.findings.gaps,
        result_files=[
            files_pb2.FileEntry(
                path=file.path, local_path=file.local_path, byte_size=file.byte_size, sha256=file.sha256
            )
            for file in given.files
        ],
        source_manifest_sha256=given.source_manifest_sha256,
        termination=given.termination,
        usage=usage_pb2.Usage(models=[_usage(use) for use in given.usage]),
        iterations=given.iterations,
        cleanup=_CLEANUPS[given.cleanup],
        duration_ms=given.duration_ms,
    )
    if given.failure is not None:
        message.error.category = given.failure.category
        message.error.message = clean(given.failure.message)
    return message


def _event(fact: ChildFact) -> child_pb2.ChildEvent:
    if isinstance(fact, Begun):
        begun = child_pb2.ChildBegun(child_id=fact.child_id, task=clean(fact.task))
        return child_pb2.ChildEvent(index=fact.index, begun=begun)
    if isinstance(fact, Stepped):
        step = child_pb2.ChildStep(child_id=fact.child_id, iteration=fact.iteration, detail=fact.detail)
        return child_pb2.ChildEvent(index=fact.index, step=step)
    if isinstance(fact, Asked):
        return child_pb2.ChildEvent(index=fact.index, model_call=_model_call(fact))
    return child_pb2.ChildEvent(index=fact.index, ended=outcome(fact.outcome))


def _model_call(fact: Asked) -> child_pb2.ChildModelCall:
    return child_pb2.ChildModelCall(
        child_id=fact.child_id,
        model=fact.model,
        purpose=fact.purpose,
        prompt_tokens=fact.prompt_tokens,
        completion_tokens=fact.completion_tokens,
        duration_ms=fact.duration_ms,
        error=clean(fact.error),
    )


def _usage(use: ModelUse) -> usage_pb2.ModelUsage:
    return usage_pb2.ModelUsage(
        role=use.role,
        model=use.model,
        calls=use.calls,
        prompt_tokens=use.prompt_tokens,
        completion_tokens=use.completion_tokens,
        cost_usd=use.cost_usd,
    )


def _moment(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(tzinfo=UTC)
