"""Sessions as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gateway.documents.document import Document, Page, Time


class Session(Document):
    """A conversation: an ordered list of committed Turns."""

    id: str
    name: str = Field(description="`sessions/{id}`.")
    title: str
    state: Literal["ACTIVE", "ARCHIVED"] = Field(description="ARCHIVED takes no Turns.")
    checkpoint_version: int = Field(ge=0, description="How many Turns are committed.")
    labels: dict[str, str]
    create_time: Time
    update_time: Time
    etag: str = Field(description="Changes with every update.")
    running_turn: str = Field(description="`sessions/{id}/turns/{id}` of the Turn that runs, or empty.")


class SessionList(Page):
    """A page of Sessions, latest update first."""

    sessions: list[Session]
