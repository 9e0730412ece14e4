"""Health as JSON."""

from __future__ import annotations

from pydantic import Field

from gateway.documents.document import Document


class Health(Document):
    """Whether the gateway lives or serves."""

    status: str = Field(description="`ok`, or what is missing.")
