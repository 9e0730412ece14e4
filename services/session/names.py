"""Resource names and the ids in them. The contract's rules have checked their form."""

from __future__ import annotations


def session_id(name: str) -> str:
    """The id in `sessions/{id}`."""
    return name.removeprefix("sessions/")


def attachment_id(name: str) -> str:
    """The id in `attachments/{id}`."""
    return name.removeprefix("attachments/")


def turn_ids(name: str) -> tuple[str | None, str]:
    """Session and Turn ids in `sessions/{id}/turns/{id}`; the Session is None where it is "-"."""
    _, session, _, turn = name.split("/")
    return None if session == "-" else session, turn
