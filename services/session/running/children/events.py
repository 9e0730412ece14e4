"""Events of children as payloads of a Turn's event log, in order, each once however often a call is attached."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fleet.recursion.v1 import child_pb2
from fleet.session.v1 import turn_event_pb2 as pb

from services.common.ids import new_id
from services.session.events.bounds import ITEM_CHARS, LIST_ITEMS, TASK_CHARS
from services.session.running.turn_events import Payload, shown

STATUS: Mapping[int, str] = {
    child_pb2.CHILD_STATUS_COMPLETED: "completed",
    child_pb2.CHILD_STATUS_FAILED: "failed",
    child_pb2.CHILD_STATUS_TIMED_OUT: "timed_out",
    child_pb2.CHILD_STATUS_CANCELLED: "cancelled",
    child_pb2.CHILD_STATUS_NOT_STARTED: "not_started",
}
"""Words for a child's status, in events and in the REPL alike."""

_CLEANUP: Mapping[int, str] = {
    child_pb2.CLEANUP_STATE_NONE: "none",
    child_pb2.CLEANUP_STATE_PENDING: "pending",
    child_pb2.CLEANUP_STATE_CONFIRMED: "confirmed",
}


@dataclass
class _Child:
    """What has been told of one child."""

    child_id: str = ""
    begun: bool = False
    ended: bool = False
    iteration: int = 0
    model_calls: int = 0
    replayed_calls: int = 0


@dataclass
class ChildBatch:
    """The children of one `RunChildren` call, as the event log sees them.

    Attributes:
        tasks: the children's tasks, in input order.
    """

    tasks: tuple[str, ...]
    _children: dict[int, _Child] = field(default_factory=dict)

    @property
    def started(self) -> int:
        """How many children were begun."""
        return sum(child.begun for child in self._children.values())

    def child_ids(self) -> list[str]:
        """The children's ids in input order; empty for those that were not begun."""
        return [self._children.get(index, _Child()).child_id for index in range(len(self.tasks))]

    def attached(self) -> None:
        """The call is attached to once more: its events may come again from the first."""
        for child in self._children.values():
            child.replayed_calls = 0

    def translate(self, event: child_pb2.ChildEvent) -> Iterator[Payload]:
        """Payloads of an event; none for one that was told before or comes after its child's end."""
        child = self._children.setdefault(event.index, _Child())
        if child.ended:
            return
        kind = event.WhichOneof("payload")
        if kind == "begun":
            yield from self._begin(event.index, child, event.begun)
        elif kind == "step" and event.step.iteration > child.iteration:
            child.iteration = event.step.iteration
            yield (
                "child_progress",
                pb.ChildProgress(
                    child_id=event.step.child_id,
                    index=event.index,
                    iteration=event.step.iteration,
                    detail=shown(event.step.detail, ITEM_CHARS),
                ),
            )
        elif kind == "model_call":
            yield from _model_call(child, event.model_call)
        elif kind == "ended":
            yield self._end(event.index, child, event.ended)

    def outcomes(self, outcomes: Iterable[child_pb2.ChildOutcome]) -> Iterator[Payload]:
        """The completed events of children whose end was told by the final outcomes only."""
        for index, outcome in enumerate(outcomes):
            child = self._children.setdefault(index, _Child())
            if not child.ended:
                yield self._end(index, child, outcome)

    def cancel(self) -> Iterator[Payload]:
        """The completed events of children that were begun and have not ended: cancelled, clean-up pending."""
        for index, child in sorted(self._children.items()):
            if child.begun and not child.ended:
                outcome = child_pb2.ChildOutcome(
                    status=child_pb2.CHILD_STATUS_CANCELLED,
                    child_id=child.child_id,
                    iterations=child.iteration,
                    cleanup=child_pb2.CLEANUP_STATE_PENDING,
                    error=child_pb2.ChildError(category="cancelled", message="The Turn ended before the child did."),
                )
                yield self._end(index, child, outcome)

    def _begin(self, index: int, child: _Child, begun: child_pb2.ChildBegun) -> Iterator[Payload]:
        if child.begun:
            return
        child.begun, child.child_id = True, begun.child_id
        task = begun.task or (self.tasks[index] if index < len(self.tasks) else "")
        yield (
            "child_started",
            pb.ChildStarted(
                child_id=begun.child_id,
                index=index,
                task=task[:TASK_CHARS],
                batch_size=len(self.tasks),
            ),
        )

    def _end(self, index: int, child: _Child, outcome: child_pb2.ChildOutcome) -> Payload:
        child.ended = True
        return "child_completed", pb.ChildCompleted(
            child_id=outcome.child_id,
            index=index,
            status=STATUS.get(outcome.status, "failed"),
            evidence=_items(outcome.evidence),
            gaps=_items(outcome.gaps),
            iterations=outcome.iterations,
            usage=outcome.usage,
            cleanup=_CLEANUP.get(outcome.cleanup, "pending"),
            error=_error(outcome),
            duration_ms=outcome.duration_ms,
        )


def _model_call(child: _Child, call: child_pb2.ChildModelCall) -> Iterator[Payload]:
    """The pair of events of a model call, unless it was told before the call was attached to again."""
    child.replayed_calls += 1
    if child.replayed_calls <= child.model_calls:
        return
    child.model_calls = child.replayed_calls
    call_id = new_id()
    yield "lm_called", pb.LmCalled(call_id=call_id, role="child", model=call.model, purpose=call.purpose)
    yield (
        "lm_completed",
        pb.LmCompleted(
            call_id=call_id,
            role="child",
            model=call.model,
            purpose=call.purpose,
            prompt_tokens=call.prompt_tokens,
            completion_tokens=call.completion_tokens,
            duration_ms=call.duration_ms,
            error=shown(call.error),
        ),
    )


def _items(items: Iterable[str]) -> list[str]:
    return [item[:ITEM_CHARS] for item in itertools.islice(items, LIST_ITEMS)]


def _error(outcome: child_pb2.ChildOutcome) -> str:
    if not outcome.HasField("error"):
        return ""
    return shown(f"{outcome.error.category}: {outcome.error.message}")
