"""An immutable document that Turns are given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Attachment:
    """A document's metadata; its bytes are in the blob store.

    Attributes:
        id: unique everywhere.
        workspace: the tenant it belongs to.
        filename: the plain name it was uploaded under.
        content_type: its media type, as the client gave it.
        byte_size: its size in bytes.
        sha256: SHA-256 of its bytes, hexadecimal.
        create_time: UTC.
        blob_key: where its bytes are in the blob store.
    """

    id: str
    workspace: str
    filename: str
    content_type: str
    byte_size: int
    sha256: str
    create_time: datetime
    blob_key: str

    @property
    def name(self) -> str:
        """`attachments/{id}`."""
        return f"attachments/{self.id}"
