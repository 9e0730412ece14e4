"""Payloads of events about children."""

from __future__ import annotations

from pydantic import Field

from gateway.documents.document import Document, Usage

INDEX = "Its place in the batch, from 0."


class ChildStarted(Document):
    """A child was started."""

    child_id: str
    index: int = Field(description=INDEX)
    task: str = Field(description="Cut at 200 characters.")
    batch_size: int


class ChildProgress(Document):
    """A child made a step."""

    child_id: str
    index: int = Field(description=INDEX)
    iteration: int
    detail: str


class ChildCompleted(Document):
    """A child ended."""

    child_id: str = Field(description="Empty when it was never started.")
    index: int = Field(description=INDEX)
    status: str = Field(description="`completed`, `failed`, `timed_out`, `cancelled` or `not_started`.")
    evidence: list[str]
    gaps: list[str]
    iterations: int
    usage: Usage | None
    cleanup: str = Field(description="Its sandbox: `confirmed` gone, `pending` or `none`.")
    error: str = Field(description="Empty, or what went wrong.")
    duration_ms: int
