"""Resource names from the short ids that REST paths use."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

Id = Annotated[str, Path(pattern=r"^[0-9a-z]{1,64}$", description="A short id: 1 to 64 of 0-9 and a-z.")]
"""A short id in a path."""


def session_name(session_id: str) -> str:
    """`sessions/{id}`."""
    return f"sessions/{session_id}"


def turn_name(turn_id: str) -> str:
    """A Turn by its id alone, which is unique across Sessions."""
    return f"sessions/-/turns/{turn_id}"


def attachment_name(attachment_id: str) -> str:
    """`attachments/{id}`."""
    return f"attachments/{attachment_id}"
