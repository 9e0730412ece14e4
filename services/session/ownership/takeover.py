"""Settles Turns whose owner is gone."""

from __future__ import annotations

from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.logging import get_logger
from services.session.events import payloads as event_payloads
from services.session.ownership.keyed_locks import KeyedLocks
from services.session.ownership.owner import SessionOwner
from services.session.runner import TurnRecovery
from services.session.store import Store
from services.session.turns.turn import Turn, TurnEnd, TurnError, TurnState

OWNER_LOST = TurnError("OWNER_LOST", "The server that ran the Turn is gone; send the request again under another id.")

_log = get_logger(__name__)


class Takeover:
    """Takes abandoned Sessions and ends their running Turns as FAILED/OWNER_LOST."""

    def __init__(self, store: Store, owner: SessionOwner, recovery: TurnRecovery, clock: Clock) -> None:
        self._store = store
        self._owner = owner
        self._recovery = recovery
        self._clock = clock
        self._settling = KeyedLocks()

    async def settle(self, turn: Turn) -> None:
        """End a Turn of a former epoch, after its children and sandboxes were released; calls at once are one.

        A Turn that another replica takes, or that has ended meanwhile, is left to it.
        """
        async with self._settling.of(turn.id):
            try:
                await self._settle(turn)
            except FleetError as error:
                if error.reason not in ("NOT_OWNER", "OWNERSHIP_LOST", "SESSION_NOT_FOUND"):
                    raise
                _log.info("an abandoned Turn was left alone", turn=turn.id, reason=error.reason)

    async def _settle(self, turn: Turn) -> None:
        epoch = await self._owner.claim(turn.session)
        if epoch <= turn.epoch or await self._store.events.is_ended(turn.id):
            return
        spent = await self._recovery.clean_up(turn, epoch)
        end = TurnEnd(TurnState.FAILED, OWNER_LOST, spent)
        await self._store.endings.end(turn, epoch, end, self._clock.now(), event_payloads.last_events)
