"""The Root's tool over the Session's committed Turns."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from services.rlm.tools import ToolDeclaration
from services.session.running.tools.arguments import failure, whole_number
from services.session.turns.turn import HistoryRecord

MAX_RECORDS = 20
"""Most Turns that one call returns."""

READ_SESSION_HISTORY = ToolDeclaration(
    name="read_session_history",
    description=(
        "Returns committed Turns of this Session, oldest first: "
        '{"ok": true, "records": [{"request", "answer"}], "offset", "total"}. '
        f"At most {MAX_RECORDS} a call."
    ),
    parameters={
        "offset": {"type": "integer", "minimum": 0, "default": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_RECORDS, "default": MAX_RECORDS},
    },
)


class HistoryTools:
    """The history tool of one Turn.

    Args:
        records: the Session's committed Turns when the Turn began.
    """

    def __init__(self, records: Sequence[HistoryRecord]) -> None:
        self._records = records

    async def read_session_history(self, offset: object = 0, limit: object = MAX_RECORDS) -> JsonValue:
        """Return up to `limit` committed Turns from `offset`."""
        start, count = whole_number(offset, 0, None), whole_number(limit, 1, MAX_RECORDS)
        if start is None or count is None:
            return failure("INVALID_ARGUMENT", f"offset must be ≥ 0 and limit 1 to {MAX_RECORDS}.")
        chosen = self._records[start : start + count]
        records: list[JsonValue] = [{"request": record.request, "answer": record.answer} for record in chosen]
        return {"ok": True, "records": records, "offset": start, "total": len(self._records)}
