"""What every answer is made of."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field


class Document(BaseModel):
    """An object of an answer. Every field is always present."""

    model_config = ConfigDict(extra="forbid", json_schema_mode_override="serialization")


class Page(Document):
    """A part of a list."""

    next_page_token: str = Field(description="Gives the next page as `page_token`; empty on the last page.")


Time = Annotated[AwareDatetime | datetime, Field(description="RFC 3339, UTC.")]
"""A point in time."""

Dimension = Literal["iterations", "llm_calls", "tool_calls", "child_calls", "output_bytes", "seconds"]
"""What a Turn may spend."""

Termination = Literal["submit", "extract"]
"""How an answer was taken: the model submitted it, or it was extracted from the steps when a limit was reached."""


class Spending(Document):
    """One dimension of a budget."""

    used: int = Field(ge=0, description="Units spent and reserved.")
    limit: int = Field(ge=0, description="Units that may be spent.")


Budget = Annotated[dict[Dimension, Spending], Field(description="What is spent and what may be, by dimension.")]
"""A Turn's budget."""


class ModelUsage(Document):
    """Calls and tokens of one model in one role."""

    role: str = Field(description="`root`, `sub` or `child`.")
    model: str
    calls: int = Field(ge=0, description="Requests sent, re-asks included.")
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    cost_usd: float | None = Field(description="US dollars, where the provider or its price list gives them.")


class Usage(Document):
    """What a Turn or a child has used."""

    models: list[ModelUsage]
    children: int = Field(ge=0, description="Children started.")


class TurnError(Document):
    """Why a Turn ended without an answer."""

    reason: str = Field(description="The reason to branch on, such as `MODEL_UNAVAILABLE`.")
    message: str = Field(description="What may be shown to anybody.")
