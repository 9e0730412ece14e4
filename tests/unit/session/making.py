"""Makes Turns for unit tests."""

from __future__ import annotations

from datetime import UTC, datetime

from services.session.turns.spending import Limits
from services.session.turns.turn import Turn, TurnInput, TurnState

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def make_turn(turn_id: str = "t1", state: TurnState = TurnState.RUNNING, given: TurnInput | None = None) -> Turn:
    return Turn(
        id=turn_id,
        session="s1",
        workspace="local",
        request_id="r1",
        fingerprint="f",
        epoch=1,
        state=state,
        input=given or TurnInput("?"),
        limits=Limits(),
        create_time=NOW,
    )
