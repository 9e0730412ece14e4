"""Attachments as JSON."""

from __future__ import annotations

from pydantic import Field

from gateway.documents.document import Document, Page, Time


class Attachment(Document):
    """An immutable document that Turns can be given."""

    id: str
    name: str = Field(description="`attachments/{id}`.")
    filename: str
    content_type: str
    byte_size: int = Field(ge=1)
    sha256: str = Field(description="Of its bytes, hexadecimal.")
    create_time: Time


class AttachmentList(Page):
    """A page of attachments, latest first."""

    attachments: list[Attachment]
