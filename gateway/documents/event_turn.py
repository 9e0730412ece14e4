"""Payloads of events about a Turn as a whole."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gateway.documents.document import Budget, Dimension, Document, Termination, TurnError, Usage


class TurnStarted(Document):
    """The Turn was admitted; always the first event."""

    session: str = Field(description="`sessions/{id}`.")
    root_model: str
    sub_model: str
    budget: Budget


class TurnPhase(Document):
    """The Turn entered a phase."""

    phase: Literal["QUEUED", "PREPARING", "RUNNING", "FINALIZING", "SETTLING"] | None
    detail: str = Field(description="A few words on what is being done.")


class SandboxReady(Document):
    """The interpreter is ready."""

    lease: str
    resident: bool = Field(description="Whether the Session's interpreter is used again, globals included.")
    rotation_reason: str = Field(description="Why the former interpreter was replaced, if it was.")
    duration_ms: int
    isolation: str = Field(description="`bubblewrap`, `landlock`, `process` or `daytona`.")


class Warned(Document):
    """Something a person should know; the Turn goes on."""

    code: str
    message: str


class BudgetUpdated(Document):
    """What is spent in one dimension."""

    dimension: Dimension | None
    used: int
    limit: int


class BudgetExhausted(Document):
    """A dimension of the budget ran out."""

    dimension: Dimension | None
    finalizes: bool = Field(description="Whether the Turn is finalized because of it.")


class Answer(Document):
    """The committed answer."""

    text: str
    outputs: dict[str, Any] | None = Field(description="All typed outputs, the answer included.")
    termination: Termination | None


class TurnEnded(Document):
    """The Turn ended; always the last event."""

    usage: Usage | None
    checkpoint_version: int = Field(description="Committed Turns of the Session after this one.")
    duration_ms: int = Field(description="From admission.")
    error: TurnError | None
    budget: Budget
