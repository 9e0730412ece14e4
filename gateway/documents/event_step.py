"""Payloads of events about the steps of a Turn, and about what they call."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gateway.documents.document import Document

CALL_ID = "Pairs the called with the completed event."
PURPOSE = "`action`, `extract`, `llm_query`, or `re-ask 1`, `re-ask 2`."


class IterationStarted(Document):
    """A step began."""

    iteration: int = Field(description="1, 2, 3 …")
    of: int = Field(description="How many there may be.")


class IterationCompleted(Document):
    """A step ended."""

    iteration: int
    duration_ms: int
    code_sha256: str


class StepText(Document):
    """Reasoning or code of a step."""

    iteration: int
    text: str = Field(description="Cut at 16 KiB.")
    truncated: bool
    full_length: int = Field(description="Characters of the whole text.")


class StepOutput(Document):
    """Output of a step: deltas while it runs, then the final one with the whole capped text."""

    iteration: int
    text: str
    final: bool
    stream: Literal["stdout", "stderr"] | None = Field(description="Where a delta was printed to.")
    truncated: bool
    full_length: int = Field(description="Bytes of the whole output; final only.")
    error: bool = Field(description="Whether the step ended with an error that the model sees; final only.")


class LmCalled(Document):
    """A model is being asked."""

    call_id: str = Field(description=CALL_ID)
    role: str = Field(description="`root`, `sub` or `child`.")
    model: str
    purpose: str = Field(description=PURPOSE)


class LmCompleted(Document):
    """A model has answered, or failed to."""

    call_id: str = Field(description=CALL_ID)
    role: str = Field(description="`root`, `sub` or `child`.")
    model: str
    purpose: str = Field(description=PURPOSE)
    prompt_tokens: int
    completion_tokens: int
    duration_ms: int
    error: str = Field(description="Empty, or the kind of failure.")


class ToolCalled(Document):
    """Sandbox code called a host tool."""

    call_id: str = Field(description=CALL_ID)
    tool: str
    input: str = Field(description="Its arguments as JSON, cut at 2 KiB.")


class ToolCompleted(Document):
    """A host tool returned."""

    call_id: str = Field(description=CALL_ID)
    tool: str
    output: str = Field(description="Its result as JSON, cut at 2 KiB.")
    error: str = Field(description="Empty, or what went wrong.")
    duration_ms: int
