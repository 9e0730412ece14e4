"""Problem documents (RFC 9457)."""

from __future__ import annotations

from pydantic import BaseModel, Field


class FieldProblem(BaseModel):
    """A field of the request that breaks its rule."""

    field: str = Field(description="The field, such as `text` or `attachments.3`.")
    message: str = Field(description="The rule with its limit.")


class Problem(BaseModel):
    """Why a request was refused or failed."""

    type: str = "about:blank"
    title: str = Field(description="What the status means.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="One sentence that may be shown to anybody.")
    code: str = Field(description="The reason to branch on, such as `TURN_IN_PROGRESS`.")
    metadata: dict[str, str] = Field({}, description="Further facts, such as the Turn that is running.")
    errors: list[FieldProblem] = Field([], description="The fields that break their rules.")
    request_id: str = Field(description="Names the request in the logs.")
