"""Events of children: once each, in order, however often a call is attached."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.recursion.v1 import child_pb2
from hypothesis import given
from hypothesis import strategies as st

from services.session.running.children.events import ChildBatch

Event = child_pb2.ChildEvent


def begun(index: int) -> Event:
    return Event(index=index, begun=child_pb2.ChildBegun(child_id=f"c{index}", task="look"))


def step(index: int, iteration: int) -> Event:
    return Event(index=index, step=child_pb2.ChildStep(child_id=f"c{index}", iteration=iteration))


def asked(index: int) -> Event:
    return Event(index=index, model_call=child_pb2.ChildModelCall(child_id=f"c{index}", model="m", purpose="action"))


def ended(index: int) -> Event:
    outcome = child_pb2.ChildOutcome(status=child_pb2.CHILD_STATUS_COMPLETED, child_id=f"c{index}")
    return Event(index=index, ended=outcome)


def told(batch: ChildBatch, events: Iterable[Event]) -> list[str]:
    return [kind for event in events for kind, _ in batch.translate(event)]


FULL = [
    begun(0), begun(1), asked(0), step(0, 1), asked(1), step(1, 1), asked(0), step(0, 2), ended(1), ended(0),
]  # fmt: skip


@given(st.lists(st.integers(0, len(FULL)), max_size=4))
def test_broken_and_attached_again_tells_the_same(breaks: list[int]) -> None:
    whole = told(ChildBatch(("a", "b")), FULL)
    batch = ChildBatch(("a", "b"))
    pieces: list[str] = []
    for end in [*breaks, len(FULL)]:
        pieces += told(batch, FULL[:end])
        batch.attached()
    assert pieces == whole
    assert list(batch.cancel()) == []
    assert batch.started == 2


def test_open_children_are_told_as_cancelled_with_pending_cleanup() -> None:
    batch = ChildBatch(("a", "b", "c"))
    told(batch, [begun(0), begun(1), step(1, 3), ended(0)])
    ((kind, message),) = list(batch.cancel())
    assert kind == "child_completed"
    assert (message.index, message.status, message.cleanup, message.iterations) == (1, "cancelled", "pending", 3)
    assert told(batch, [ended(1)]) == []


def test_outcomes_tell_the_end_of_children_that_never_began() -> None:
    batch = ChildBatch(("", "b"))
    told(batch, [begun(1), ended(1)])
    outcomes = [
        child_pb2.ChildOutcome(
            status=child_pb2.CHILD_STATUS_FAILED,
            error=child_pb2.ChildError(category="invalid_task", message="The task is blank."),
        ),
        child_pb2.ChildOutcome(status=child_pb2.CHILD_STATUS_COMPLETED, child_id="c1"),
    ]
    ((kind, message),) = list(batch.outcomes(outcomes))
    assert kind == "child_completed"
    assert (message.index, message.status, message.error) == (0, "failed", "invalid_task: The task is blank.")
