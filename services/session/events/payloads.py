"""The events that the service itself writes: a Turn's first and last ones."""

from __future__ import annotations

from datetime import timedelta

from fleet.session.v1 import turn_event_pb2 as pb
from fleet.session.v1 import turn_pb2
from google.protobuf.message import Message

from services.common.text import clean
from services.session.servicers import translate
from services.session.turns.turn import Turn, TurnState

_LAST_KINDS = {
    TurnState.COMPLETED: "turn_completed",
    TurnState.FAILED: "turn_failed",
    TurnState.CANCELLED: "turn_cancelled",
    TurnState.TIMED_OUT: "turn_timed_out",
}


def started(turn: Turn, root_model: str, sub_model: str) -> pb.TurnStarted:
    """`turn.started` of a Turn that is being admitted."""
    return pb.TurnStarted(
        session=f"sessions/{turn.session}",
        root_model=root_model,
        sub_model=sub_model,
        budget=translate.budget_messages(turn.budget),
    )


def phase(state: TurnState, detail: str) -> pb.TurnPhase:
    """`turn.phase`."""
    return pb.TurnPhase(phase=translate.turn_state(state), detail=clean(detail))


def last_events(turn: Turn, checkpoint_version: int) -> list[tuple[str, Message]]:
    """The last events of a Turn that has ended: its answer, if it has one, and its terminal event."""
    events: list[tuple[str, Message]] = []
    if turn.state is TurnState.COMPLETED:
        events.append(("answer", _answer(turn)))
    events.append((_LAST_KINDS[turn.state], _ended(turn, checkpoint_version)))
    return events


def _answer(turn: Turn) -> pb.Answer:
    return pb.Answer(
        text=clean(turn.answer or ""),
        outputs=translate.struct(turn.outputs),
        termination=translate.termination(turn.termination),
    )


def _ended(turn: Turn, checkpoint_version: int) -> pb.TurnEnded:
    error = None
    if turn.error is not None:
        error = turn_pb2.TurnError(reason=turn.error.reason, message=clean(turn.error.message))
    duration = (turn.end_time or turn.create_time) - turn.create_time
    return pb.TurnEnded(
        usage=translate.usage_message(turn.usage),
        checkpoint_version=checkpoint_version,
        duration_ms=max(0, duration // timedelta(milliseconds=1)),
        error=error,
        budget=translate.budget_messages(turn.budget),
    )
