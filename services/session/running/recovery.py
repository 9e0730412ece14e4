"""Cleans up after a replica that is gone: implements `services.session.runner.TurnRecovery`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from services.common.errors import FleetError
from services.common.logging import get_logger
from services.session.running.clients.recursion import RecursionClient
from services.session.running.clients.sandbox import SandboxClient
from services.session.running.residents.resident import SessionKey
from services.session.running.residents.runtime import on_behalf_of
from services.session.turns.spending import BudgetLine, Spent
from services.session.turns.turn import Turn

T = TypeVar("T")

_log = get_logger(__name__)

_SECONDS = 10.0
"""How long each service may take; its own expiry finishes what is left."""


class RecoveryOfTurns:
    """Aborts ledgers and releases leases of Turns whose owner is gone."""

    def __init__(self, recursion: RecursionClient, sandbox: SandboxClient) -> None:
        """Args: the recursion service and the sandbox broker."""
        self._recursion = recursion
        self._sandbox = sandbox

    async def clean_up(self, turn: Turn, epoch: int) -> Spent:
        """Abort the Turn's ledger, then release its Session's leases; returns what is known to have been spent.

        An unreachable service is logged, not raised.
        """
        with on_behalf_of(SessionKey(turn.workspace, turn.session)):
            lines = await _bounded(self._recursion.abort(turn.id, epoch, _SECONDS), turn, "abort the ledger")
            await _bounded(self._release(turn), turn, "release the leases")
        known: tuple[BudgetLine, ...] = lines or turn.budget
        return Spent(turn.usage, known, turn.iterations)

    async def _release(self, turn: Turn) -> None:
        """Release the Session's Root leases; children's leases are the recursion service's."""
        names = await self._sandbox.root_leases(turn.session)
        gone = await asyncio.gather(*(self._sandbox.release(name) for name in names))
        if not all(gone):
            _log.warning("sandboxes not confirmed gone", turn=turn.id, count=len(gone) - sum(gone))


async def _bounded(work: Awaitable[T], turn: Turn, what: str) -> T | None:
    try:
        async with asyncio.timeout(_SECONDS):
            return await work
    except TimeoutError:
        _log.warning("recovery took too long", turn=turn.id, step=what)
    except FleetError as error:
        if error.reason != "LEDGER_NOT_FOUND":
            _log.warning("recovery step failed", turn=turn.id, step=what, reason=error.reason)
    return None
