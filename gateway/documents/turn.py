"""Turns as JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gateway.documents.document import Budget, Document, Page, Termination, Time, TurnError, Usage

TurnState = Literal[
    "QUEUED", "PREPARING", "RUNNING", "FINALIZING", "SETTLING", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"
]
"""Where a Turn is in its life; the last four are ends."""


class Turn(Document):
    """One request and its answer."""

    id: str
    name: str = Field(description="`sessions/{id}/turns/{id}`.")
    session: str = Field(description="`sessions/{id}`.")
    state: TurnState
    text: str = Field(description="What was asked.")
    answer: str = Field(description="The answer, once the Turn is completed.")
    outputs: dict[str, Any] | None = Field(description="All typed outputs, the answer included.")
    termination: Termination | None = Field(description="How the answer was taken.")
    usage: Usage | None
    budget: Budget
    iterations: int = Field(ge=0, description="Steps so far.")
    trace_id: str = Field(description="32 hexadecimal digits, or empty when tracing is off.")
    error: TurnError | None
    create_time: Time | None = Field(description="When it was admitted.")
    start_time: Time | None = Field(description="When its preparation began.")
    end_time: Time | None = Field(description="When it ended.")
    request_id: str = Field(description="Its `Idempotency-Key`.")
    attachments: list[str] = Field(description="`attachments/{id}` of what it was given.")


class TurnList(Page):
    """A page of a Session's Turns, oldest first."""

    turns: list[Turn]
