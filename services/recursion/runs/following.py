"""Watching a call whose children run on another replica, or ran before this one started."""

from __future__ import annotations

from collections.abc import AsyncIterator

from services.common.errors import FleetError
from services.recursion.budget.changes import Changes
from services.recursion.runs.log import Ended, Part
from services.recursion.store.children import ChildStore

_LOOK_SECONDS = 0.25


async def follow(children: ChildStore, changes: Changes, turn: str, call_id: str) -> AsyncIterator[Part]:
    """Tell each child's end as it is written down, then all outcomes in input order.

    What else happened to a child is known where it ran only.

    Raises:
        FleetError: LEDGER_NOT_FOUND, when the call's Turn is dropped meanwhile.
    """
    told: set[int] = set()
    while True:
        call = await children.call(turn, call_id)
        if call is None:
            raise FleetError("LEDGER_NOT_FOUND", "The Turn's books are gone.", {"turn": turn})
        for child in call.children:
            if child.outcome is not None and child.position not in told:
                told.add(child.position)
                yield Ended(child.position, child.outcome)
        outcomes = [child.outcome for child in call.children if child.outcome is not None]
        if len(outcomes) == len(call.children):
            yield outcomes
            return
        await changes.wait(turn, _LOOK_SECONDS)
