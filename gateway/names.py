"""Resource names from the short ids that REST paths use."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Path

from services.common.errors import FleetError

ID_PATTERN = "^[0-9a-z]{1,64}$"
"""The form of every short id."""

Id = Annotated[str, Path(description="A short id.", json_schema_extra={"pattern": ID_PATTERN})]
"""A short id in a path. Text of another form names nothing, so it is not found rather than invalid."""


def session_name(session_id: str) -> str:
    """`sessions/{id}`.

    Raises:
        FleetError: SESSION_NOT_FOUND: no id looks like this.
    """
    return f"sessions/{_checked(session_id, 'SESSION_NOT_FOUND', 'Session')}"


def turn_name(turn_id: str) -> str:
    """A Turn by its id alone, which is unique across Sessions.

    Raises:
        FleetError: TURN_NOT_FOUND: no id looks like this.
    """
    return f"sessions/-/turns/{_checked(turn_id, 'TURN_NOT_FOUND', 'Turn')}"


def attachment_name(attachment_id: str) -> str:
    """`attachments/{id}`.

    Raises:
        FleetError: ATTACHMENT_NOT_FOUND: no id looks like this.
    """
    return f"attachments/{_checked(attachment_id, 'ATTACHMENT_NOT_FOUND', 'attachment')}"


def _checked(short_id: str, reason: str, kind: str) -> str:
    if re.fullmatch(ID_PATTERN, short_id) and not short_id.endswith("\n"):
        return short_id
    raise FleetError(reason, f"There is no {kind} {short_id}.")
