"""Request bodies. Unknown fields are errors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Label = Annotated[str, Field(max_length=255)]
ShortId = Annotated[str, Field(pattern=r"^[0-9a-z]{1,64}$")]


class Body(BaseModel):
    """A request body that accepts just the fields it declares."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SessionCreate(Body):
    """A Session to make."""

    title: str = Field("", max_length=255, description="What a person calls it.")
    labels: dict[Annotated[str, Field(min_length=1, max_length=63)], Label] = Field(
        {}, max_length=32, description="The caller's own key-value pairs."
    )


class SessionUpdate(Body):
    """Fields of a Session to set; those left out stay as they are."""

    title: str | None = Field(None, max_length=255)
    labels: dict[Annotated[str, Field(min_length=1, max_length=63)], Label] | None = Field(None, max_length=32)
    state: Literal["ACTIVE", "ARCHIVED"] | None = Field(None, description="ARCHIVED takes no Turns.")
    etag: str = Field("", max_length=128, description="When given, the Session must still have it.")


class SkillChoice(Body):
    """A Skill in the version the client has seen."""

    id: str = Field(min_length=1, max_length=64)
    version: str = Field(min_length=1, max_length=64)


class Limits(Body):
    """Lower limits for one Turn; 0 keeps the policy's."""

    iterations: int = Field(0, ge=0, le=2**32 - 1)
    llm_calls: int = Field(0, ge=0, le=2**32 - 1)
    tool_calls: int = Field(0, ge=0, le=2**32 - 1)
    child_calls: int = Field(0, ge=0, le=2**32 - 1)
    output_bytes: int = Field(0, ge=0, le=2**63 - 1)
    seconds: int = Field(0, ge=0, le=2**32 - 1)


class TurnCreate(Body):
    """A Turn to run."""

    text: str = Field(min_length=1, max_length=100_000, description="The question; not blank.")
    attachments: list[ShortId] = Field([], max_length=32, description="Ids of attachments, unique.")
    skills: list[SkillChoice] = Field([], max_length=4)
    budget: Limits = Field(default_factory=Limits)
    timeout_seconds: float | None = Field(None, ge=1, le=86_400, allow_inf_nan=False)
    on_disconnect: Literal["continue", "cancel"] = "continue"
