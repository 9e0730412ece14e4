"""Payloads of events about what a Turn reads, makes and remembers."""

from __future__ import annotations

from pydantic import Field

from gateway.documents.document import Document


class SkillLoaded(Document):
    """A Skill's text was loaded."""

    id: str
    version: str


class AttachmentRead(Document):
    """The model read an attachment through its tool."""

    attachment: str = Field(description="`attachments/{id}`.")
    filename: str
    characters: int


class ArtifactCreated(Document):
    """An artifact was committed."""

    artifact: str = Field(description="`artifacts/{id}`.")
    title: str
    kind: str
    byte_size: int


class MemoryUpdated(Document):
    """A memory was added or forgotten."""

    id: str
    change: str = Field(description="`added` or `forgotten`.")
