"""Step 6 of a Turn's life: what is committed, and how a ledger ends that can't be settled."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from services.common.errors import FleetError
from services.session.running.background import BackgroundTasks
from services.session.running.clients.recursion import RecursionClient, TurnBooks
from services.session.turns.spending import BudgetLine, JsonValue, Spent
from services.session.turns.turn import Commit, Termination

if TYPE_CHECKING:
    from services.rlm.native import RlmOutcome

_ABORT_SECONDS = 0.3
"""How long a Turn's end waits for its ledger; it must not make a cancellation late."""

_LEAST_SECONDS = 1.0
"""How long a settlement may take at least, its answer included; the Turn's deadline ends it in any case."""

_LATER_SECONDS = 10.0
_LATER_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0)
_ENDED = frozenset({"LEDGER_NOT_FOUND", "LEDGER_CLOSED", "LEDGER_CONFLICT"})


async def settle(books: TurnBooks, seconds: float) -> tuple[BudgetLine, ...]:
    """Settle a Turn's ledger within `seconds` and return its lines.

    Raises:
        FleetError: CHILDREN_UNRESOLVED, or the recursion service can't be reached.
    """
    try:
        return await books.settle(max(_LEAST_SECONDS, seconds))
    except FleetError as error:
        if error.reason != "DEADLINE_EXCEEDED":
            raise
        raise FleetError("CHILDREN_UNRESOLVED", "The Turn's children could not be settled in time.") from error


class Ledger:
    """A Turn's ledger as its failure sees it."""

    def __init__(self, turn: str, epoch: int, recursion: RecursionClient) -> None:
        """Args: the Turn's id, the Session's ownership epoch, and the recursion service."""
        self._turn = turn
        self._epoch = epoch
        self._recursion = recursion

    async def abort(self, background: BackgroundTasks) -> tuple[BudgetLine, ...]:
        """Stop granting and cancel the children; returns the ledger's lines, if they come soon.

        Where the service doesn't answer soon, `background` goes on asking; at last the ledger's own deadline ends it.
        """
        try:
            return await self._recursion.abort(self._turn, self._epoch, _ABORT_SECONDS)
        except FleetError as error:
            if error.reason not in _ENDED:
                background.spawn(self._abort_later(), f"abort ledger of turn {self._turn}")
            return ()

    async def _abort_later(self) -> None:
        for pause in _LATER_PAUSES:
            await asyncio.sleep(pause)
            try:
                await self._recursion.abort(self._turn, self._epoch, _LATER_SECONDS)
            except FleetError as error:
                if error.reason not in _ENDED:
                    continue
            return


def settled_commit(outcome: RlmOutcome, outputs: Mapping[str, JsonValue], spent: Spent) -> Commit:
    """What a Turn commits.

    Args:
        outcome: what the RLM gave.
        outputs: its checked outputs.
        spent: the account.
    """
    return Commit(
        answer=str(outputs["answer"]),
        outputs=outputs,
        termination=Termination(outcome.termination),
        spent=spent,
    )
