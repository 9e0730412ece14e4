"""Domain objects to protobuf and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from fleet.common.v1 import budget_pb2, usage_pb2
from fleet.session.v1 import attachment_service_pb2, session_pb2, session_service_pb2, turn_pb2
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from services.common.text import clean
from services.session import names
from services.session.attachments.attachment import Attachment
from services.session.sessions.session import Session, SessionState
from services.session.turns.spending import DIMENSIONS, BudgetLine, JsonValue, Limits, Usage
from services.session.turns.turn import SkillSelection, Termination, Turn, TurnInput, TurnState

_DIMENSIONS = {name: budget_pb2.BudgetDimension.Value(f"BUDGET_DIMENSION_{name.upper()}") for name in DIMENSIONS}
_TERMINATIONS = {
    Termination.SUBMIT: turn_pb2.TERMINATION_SUBMIT,
    Termination.EXTRACT: turn_pb2.TERMINATION_EXTRACT,
}


def timestamp(time: datetime | None) -> Timestamp | None:
    """A time as protobuf has it."""
    if time is None:
        return None
    message = Timestamp()
    message.FromDatetime(time)
    return message


def session_message(session: Session) -> session_pb2.Session:
    """A Session as protobuf."""
    return session_pb2.Session(
        name=session.name,
        title=session.title,
        state=session_pb2.SessionState.Value(f"SESSION_STATE_{session.state}"),
        checkpoint_version=session.checkpoint_version,
        labels=dict(session.labels),
        create_time=timestamp(session.create_time),
        update_time=timestamp(session.update_time),
        etag=session.etag,
        running_turn=f"{session.name}/turns/{session.running_turn}" if session.running_turn else "",
    )


def session_state(value: session_pb2.SessionState.ValueType) -> SessionState | None:
    """The state of an enum value; None for the unspecified one."""
    if value == session_pb2.SESSION_STATE_UNSPECIFIED:
        return None
    return SessionState(session_pb2.SessionState.Name(value).removeprefix("SESSION_STATE_"))


def turn_state(state: TurnState) -> turn_pb2.TurnState.ValueType:
    """A Turn's state as its enum value."""
    return turn_pb2.TurnState.Value(f"TURN_STATE_{state}")


def termination(value: Termination | None) -> turn_pb2.Termination.ValueType:
    """How an answer was taken, as its enum value."""
    return turn_pb2.TERMINATION_UNSPECIFIED if value is None else _TERMINATIONS[value]


def usage_message(usage: Usage) -> usage_pb2.Usage:
    """A Usage as protobuf."""
    models = [
        usage_pb2.ModelUsage(
            role=each.role,
            model=each.model,
            calls=each.calls,
            prompt_tokens=each.prompt_tokens,
            completion_tokens=each.completion_tokens,
            cost_usd=each.cost_usd,
        )
        for each in usage.models
    ]
    return usage_pb2.Usage(models=models, children=usage.children)


def budget_messages(lines: Sequence[BudgetLine]) -> list[budget_pb2.BudgetLine]:
    """Budget lines as protobuf."""
    return [
        budget_pb2.BudgetLine(dimension=_DIMENSIONS[line.dimension], used=line.used, limit=line.limit) for line in lines
    ]


def struct(value: Mapping[str, JsonValue] | None) -> Struct | None:
    """Typed outputs as protobuf."""
    if value is None:
        return None
    message = Struct()
    message.update({clean(key): _clean(each) for key, each in value.items()})
    return message


def turn_message(turn: Turn) -> turn_pb2.Turn:
    """A Turn as protobuf."""
    error = turn_pb2.TurnError(reason=turn.error.reason, message=clean(turn.error.message)) if turn.error else None
    return turn_pb2.Turn(
        name=turn.name,
        session=f"sessions/{turn.session}",
        state=turn_state(turn.state),
        text=turn.input.text,
        answer=clean(turn.answer or ""),
        outputs=struct(turn.outputs),
        termination=termination(turn.termination),
        usage=usage_message(turn.usage),
        budget=budget_messages(turn.budget),
        iterations=turn.iterations,
        trace_id=turn.trace_id,
        error=error,
        create_time=timestamp(turn.create_time),
        start_time=timestamp(turn.start_time),
        end_time=timestamp(turn.end_time),
        request_id=turn.request_id,
        attachments=[f"attachments/{each}" for each in turn.input.attachments],
    )


def turn_input(request: session_service_pb2.RunTurnRequest) -> TurnInput:
    """What the client chose about a Turn."""
    timeout = request.timeout.seconds + request.timeout.nanos / 1e9 if request.HasField("timeout") else None
    return TurnInput(
        text=request.text,
        attachments=tuple(names.attachment_id(name) for name in request.attachments),
        skills=tuple(SkillSelection(skill.id, skill.version) for skill in request.skills),
        limits=Limits(**{name: getattr(request.budget, name) for name in DIMENSIONS}),
        timeout_seconds=timeout,
    )


def attachment_message(attachment: Attachment) -> attachment_service_pb2.Attachment:
    """An attachment as protobuf."""
    return attachment_service_pb2.Attachment(
        name=attachment.name,
        filename=attachment.filename,
        content_type=attachment.content_type,
        byte_size=attachment.byte_size,
        sha256=attachment.sha256,
        create_time=timestamp(attachment.create_time),
    )


def _clean(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_clean(each) for each in value]
    if isinstance(value, dict):
        return {clean(key): _clean(each) for key, each in value.items()}
    return value
