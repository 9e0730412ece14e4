"""The service's expected failures, each worded once."""

from __future__ import annotations

from collections.abc import Sequence

from services.common.errors import FieldViolation, FleetError


def session_not_found(session_id: str) -> FleetError:
    """No such Session in the caller's workspace."""
    return FleetError("SESSION_NOT_FOUND", f"There is no Session sessions/{session_id}.")


def session_archived(session_id: str) -> FleetError:
    """The Session takes no Turns."""
    return FleetError("SESSION_ARCHIVED", f"sessions/{session_id} is archived; unarchive it to send Turns.")


def etag_mismatch(session_id: str) -> FleetError:
    """The Session was changed since the caller read it."""
    return FleetError("ETAG_MISMATCH", f"sessions/{session_id} has changed since it was read; read it again.")


def turn_not_found(turn_id: str) -> FleetError:
    """No such Turn in the caller's workspace."""
    return FleetError("TURN_NOT_FOUND", f"There is no Turn {turn_id}.")


def turn_in_progress(session_id: str, turn_id: str) -> FleetError:
    """The Session runs another Turn."""
    name = f"sessions/{session_id}/turns/{turn_id}"
    return FleetError("TURN_IN_PROGRESS", f"The Session is running {name}.", {"turn": name})


def request_id_reused(request_id: str, session_id: str, turn_id: str) -> FleetError:
    """The request id belongs to a Turn with other input."""
    name = f"sessions/{session_id}/turns/{turn_id}"
    message = f"The request id belongs to {name}, which has other input; choose another id."
    violation = FieldViolation("request_id", "must be one that no Turn with other input has used")
    return FleetError("REQUEST_ID_REUSED", message, {"turn": name, "request_id": request_id}, violations=[violation])


def attachment_not_found(attachment_ids: Sequence[str]) -> FleetError:
    """No such attachments in the caller's workspace."""
    names = ", ".join(f"attachments/{each}" for each in attachment_ids)
    return FleetError("ATTACHMENT_NOT_FOUND", f"There is no {names}.", {"attachments": names})


def attachment_in_use(attachment_id: str, session_id: str, turn_id: str) -> FleetError:
    """A running Turn uses the attachment."""
    name = f"sessions/{session_id}/turns/{turn_id}"
    return FleetError(
        "ATTACHMENT_IN_USE", f"attachments/{attachment_id} is used by the running {name}.", {"turn": name}
    )


def skill_not_found(skill_id: str) -> FleetError:
    """No such Skill."""
    return FleetError("SKILL_NOT_FOUND", f"There is no Skill {skill_id}.", {"skill": skill_id})


def artifact_not_found(name: str) -> FleetError:
    """No such artifact in the caller's workspace."""
    return FleetError("ARTIFACT_NOT_FOUND", f"There is no {name}.")


def not_owner(session_id: str, address: str) -> FleetError:
    """Another replica owns the Session."""
    message = f"sessions/{session_id} is owned by another replica."
    return FleetError("NOT_OWNER", message, {"address": address, "session": f"sessions/{session_id}"})


def ownership_lost(turn_id: str) -> FleetError:
    """The Turn's epoch is over, or it has ended."""
    return FleetError("OWNERSHIP_LOST", f"Turn {turn_id} has ended or is written by another owner.")


def sequence_out_of_range(after: int, last: int) -> FleetError:
    """The log of an ended Turn has no such sequence."""
    message = f"after_sequence is {after}, and the Turn ended with event {last}."
    return FleetError("SEQUENCE_OUT_OF_RANGE", message, {"last_sequence": str(last)})


def invalid(field: str, description: str) -> FleetError:
    """A request field breaks its rule."""
    violation = FieldViolation(field, description)
    return FleetError("INVALID_ARGUMENT", f"{field} {description}.", violations=[violation])


def page_token_invalid() -> FleetError:
    """The page token was not made by this list."""
    violation = FieldViolation("page_token", "must be a next_page_token of the same list")
    message = "The page token was not made by this list."
    return FleetError("PAGE_TOKEN_INVALID", message, violations=[violation])


def unimplemented(method: str) -> FleetError:
    """A method of the contract without behaviour in this release."""
    return FleetError("UNIMPLEMENTED", f"{method} has no behaviour in this release.", {"method": method})
