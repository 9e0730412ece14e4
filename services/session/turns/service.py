"""Use cases of Turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from dataclasses import replace

from fleet.session.v1 import turn_event_pb2 as pb

from config.policy import Policy
from services.common.clock import Clock
from services.common.errors import FleetError
from services.common.ids import new_id
from services.common.logging import get_logger
from services.session import pages, refusals
from services.session.events import payloads as event_payloads
from services.session.events.log import EventLog
from services.session.events.turn_log import make_event
from services.session.ownership.keyed_locks import KeyedLocks
from services.session.ownership.owner import SessionOwner
from services.session.ownership.takeover import Takeover
from services.session.pages import Page
from services.session.sessions.session import Session, SessionState
from services.session.store import Store
from services.session.turns import limits
from services.session.turns.capacity import Capacity
from services.session.turns.fingerprints import fingerprint
from services.session.turns.supervision import TurnSupervisor
from services.session.turns.turn import Turn, TurnInput, TurnJob, TurnState

CANCEL_SECONDS = 2.0
"""How long a cancel waits for its Turn to end before it returns the Turn as it is."""

SHUTDOWN_RETRY_SECONDS = 1.0
"""When a client may try again, with another replica or the next start."""

_log = get_logger(__name__)


class TurnService:
    """Admits, reads, watches and cancels Turns."""

    def __init__(
        self,
        policy: Policy,
        store: Store,
        events: EventLog,
        owner: SessionOwner,
        takeover: Takeover,
        capacity: Capacity,
        supervisor: TurnSupervisor,
        clock: Clock,
    ) -> None:
        self._policy = policy
        self._store = store
        self._events = events
        self._owner = owner
        self._takeover = takeover
        self._capacity = capacity
        self._supervisor = supervisor
        self._clock = clock
        self._admissions = KeyedLocks()
        self._tasks: set[asyncio.Task[Turn]] = set()
        self._stopping = False

    async def run(
        self, workspace: str, session_id: str, request_id: str, given: TurnInput, patience: float | None = None
    ) -> Turn:
        """Start a Turn, or find the one that the request id belongs to.

        Args:
            workspace: the caller's.
            session_id: the Session.
            request_id: the client's.
            given: what the client chose.
            patience: seconds until the caller's deadline, or None.

        Raises:
            FleetError: SESSION_NOT_FOUND, REQUEST_ID_REUSED, INVALID_ARGUMENT, SESSION_ARCHIVED, SKILL_NOT_FOUND,
                TURN_IN_PROGRESS, ATTACHMENT_NOT_FOUND, NOT_OWNER, CAPACITY_EXHAUSTED, UNAVAILABLE.
        """
        await self._store.sessions.get(workspace, session_id)
        mark = fingerprint(given)
        earlier = await self._store.turns.find_request(session_id, request_id)
        if earlier is not None:
            return _same(earlier, mark)
        # One admission of a Session at a time, so that equal requests at once find each other before they queue.
        async with self._admissions.of(session_id):
            earlier = await self._store.turns.find_request(session_id, request_id)
            if earlier is not None:
                return _same(earlier, mark)
            return await self._start(workspace, session_id, request_id, given, patience)

    async def get(self, workspace: str, turn_id: str, session_id: str | None = None) -> Turn:
        """A Turn.

        Raises:
            FleetError: TURN_NOT_FOUND.
        """
        return await self._store.turns.get(workspace, turn_id, session_id)

    async def page(self, workspace: str, session_id: str, size: int, token: str) -> Page[Turn]:
        """A page of a Session's Turns, oldest first.

        Raises:
            FleetError: SESSION_NOT_FOUND, PAGE_TOKEN_INVALID.
        """
        await self._store.sessions.get(workspace, session_id)
        scope = f"turns:{session_id}"
        count = pages.page_size(size)
        found = await self._store.turns.page(session_id, pages.decode(scope, token), count + 1)
        return pages.page_of(scope, found, count, lambda each: (each.create_time, each.id))

    async def watch(self, turn: Turn, after: int, *, snapshot: bool = False) -> AsyncGenerator[list[pb.TurnEvent]]:
        """A Turn's events after a sequence: what is stored, then, unless `snapshot`, live ones to the last.

        Raises:
            FleetError: SEQUENCE_OUT_OF_RANGE, when the Turn has ended before `after`.
        """
        if turn.state.terminal and after > 0:
            last = await self._store.events.last_sequence(turn.id)
            if after > last:
                raise refusals.sequence_out_of_range(after, last)
        async with aclosing(self._events.watch(turn, after, snapshot=snapshot)) as stream:
            async for events in stream:
                yield events

    async def cancel(self, workspace: str, turn_id: str, session_id: str | None = None) -> Turn:
        """Cancel a running Turn and return it, ended where that takes no longer than a moment.

        Raises:
            FleetError: TURN_NOT_FOUND, or NOT_OWNER.
        """
        turn = await self._store.turns.get(workspace, turn_id, session_id)
        if turn.state.terminal:
            return turn
        if turn.epoch < await self._owner.claim(turn.session):
            await self._takeover.settle(turn)
        elif self._supervisor.cancel(turn.id):
            await self._supervisor.ended(turn.id, CANCEL_SECONDS)
        return await self._store.turns.get(workspace, turn_id)

    def cancel_soon(self, turn: Turn) -> None:
        """Cancel a Turn whose client has gone, in the background."""
        self._own(self.cancel(turn.workspace, turn.id))

    async def close(self) -> None:
        """Admit no more Turns, and return when no admission or cancellation is under way."""
        self._stopping = True
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _start(
        self, workspace: str, session_id: str, request_id: str, given: TurnInput, patience: float | None
    ) -> Turn:
        """Admit a Turn and start it."""
        self._check_open()
        turn = Turn(
            id=new_id(),
            session=session_id,
            workspace=workspace,
            request_id=request_id,
            fingerprint=fingerprint(given),
            epoch=0,
            state=TurnState.QUEUED,
            input=given,
            limits=limits.limits_of(self._policy, given),
            create_time=self._clock.now(),
        )
        epoch = await self._check(await self._store.sessions.get(workspace, session_id), turn)
        await self._capacity.acquire(self._patience(patience))
        if self._stopping:
            self._capacity.release()
        self._check_open()
        # Once a Turn is stored it must be started, also when the caller has gone in between.
        return await asyncio.shield(self._own(self._admit(replace(turn, epoch=epoch))))

    async def _check(self, session: Session, turn: Turn) -> int:
        """Refuse what can be refused before a place is waited for; returns the ownership epoch."""
        if session.state is SessionState.ARCHIVED:
            raise refusals.session_archived(session.id)
        if turn.input.skills:
            raise refusals.skill_not_found(turn.input.skills[0].id)
        epoch = await self._owner.claim(session.id)
        if session.running_turn is not None:
            await self._make_way(session, session.running_turn, epoch)
        await self._store.attachments.get_all(turn.workspace, turn.input.attachments)
        return epoch

    async def _make_way(self, session: Session, turn_id: str, epoch: int) -> None:
        """Settle the Session's running Turn if its owner is gone.

        Raises:
            FleetError: TURN_IN_PROGRESS.
        """
        running = await self._store.turns.get(session.workspace, turn_id)
        if running.state.terminal:
            return
        if running.epoch >= epoch:
            raise refusals.turn_in_progress(session.id, turn_id)
        await self._takeover.settle(running)

    async def _admit(self, turn: Turn) -> Turn:
        """Store a Turn that holds a place, and start it; the place is given back when it isn't started."""
        llm = self._policy.llm
        turn = replace(turn, budget=turn.limits.lines())
        started = event_payloads.started(turn, llm.root.model, llm.sub.model)
        first = make_event(turn.name, 1, turn.create_time, "turn_started", started)
        try:
            admitted = await self._store.admission.admit(turn, [first])
        except BaseException:
            self._capacity.release()
            raise
        if not admitted.fresh:
            self._capacity.release()
            return _same(admitted.turn, turn.fingerprint)
        deadline = self._clock.monotonic() + limits.seconds_of(self._policy, turn.input)
        job = TurnJob(admitted.turn, admitted.session, turn.epoch, admitted.attachments, deadline)
        self._supervisor.start(job, next_sequence=2)
        return admitted.turn

    def _check_open(self) -> None:
        if self._stopping:
            raise FleetError("UNAVAILABLE", "The server is shutting down.", retry_after=SHUTDOWN_RETRY_SECONDS)

    def _patience(self, patience: float | None) -> float:
        longest = self._policy.runtime.queue_seconds
        return longest if patience is None else min(longest, patience * 0.9)

    def _own(self, work: Coroutine[None, None, Turn]) -> asyncio.Task[Turn]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Turn]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, FleetError):
            _log.error("background work of a Turn failed", exc_info=error)


def _same(earlier: Turn, mark: str) -> Turn:
    """The Turn that a request id belongs to already.

    Raises:
        FleetError: REQUEST_ID_REUSED, when its input is another.
    """
    if earlier.fingerprint != mark:
        raise refusals.request_id_reused(earlier.request_id, earlier.session, earlier.id)
    return earlier
