"""Turn events as JSON: the `data` of server-sent events, told apart by `type`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, create_model

from gateway.documents.document import Document, Time
from gateway.documents.event_child import ChildCompleted, ChildProgress, ChildStarted
from gateway.documents.event_resource import ArtifactCreated, AttachmentRead, MemoryUpdated, SkillLoaded
from gateway.documents.event_step import (
    IterationCompleted,
    IterationStarted,
    LmCalled,
    LmCompleted,
    StepOutput,
    StepText,
    ToolCalled,
    ToolCompleted,
)
from gateway.documents.event_turn import (
    Answer,
    BudgetExhausted,
    BudgetUpdated,
    SandboxReady,
    TurnEnded,
    TurnPhase,
    TurnStarted,
    Warned,
)

PAYLOADS: dict[str, type[Document]] = {
    "turn.started": TurnStarted,
    "turn.phase": TurnPhase,
    "sandbox.ready": SandboxReady,
    "iteration.started": IterationStarted,
    "iteration.completed": IterationCompleted,
    "reasoning": StepText,
    "code": StepText,
    "output": StepOutput,
    "lm.called": LmCalled,
    "lm.completed": LmCompleted,
    "tool.called": ToolCalled,
    "tool.completed": ToolCompleted,
    "child.started": ChildStarted,
    "child.progress": ChildProgress,
    "child.completed": ChildCompleted,
    "skill.loaded": SkillLoaded,
    "attachment.read": AttachmentRead,
    "artifact.created": ArtifactCreated,
    "memory.updated": MemoryUpdated,
    "warning": Warned,
    "budget.updated": BudgetUpdated,
    "budget.exhausted": BudgetExhausted,
    "answer": Answer,
    "turn.completed": TurnEnded,
    "turn.failed": TurnEnded,
    "turn.cancelled": TurnEnded,
    "turn.timed_out": TurnEnded,
}
"""What each type of event carries beside its envelope."""


class Envelope(Document):
    """What every event has."""

    turn: str = Field(description="`sessions/{id}/turns/{id}`.")
    sequence: int = Field(ge=1, description="1, 2, 3 … without gaps.")
    time: Time


def _event(kind: str, payload: type[Document]) -> type[Document]:
    """The model of one type of event: the envelope, the type and the payload's fields in one object."""
    name = "".join(part.title() for part in kind.replace(".", "_").split("_")) + "Event"
    kind_field: Any = (Literal[kind], Field())
    return create_model(name, __base__=(Envelope, payload), __doc__=payload.__doc__, type=kind_field)


EVENTS: dict[str, type[Document]] = {kind: _event(kind, payload) for kind, payload in PAYLOADS.items()}
"""The model of each type of event."""
