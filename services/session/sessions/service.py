"""Use cases of Sessions."""

from __future__ import annotations

from collections.abc import Mapping

from services.common.clock import Clock
from services.common.ids import new_id
from services.session import pages
from services.session.pages import Page
from services.session.runner import TurnRunner
from services.session.sessions.session import Session, SessionPatch, SessionState
from services.session.store import Store


class SessionService:
    """Makes, reads, changes and deletes Sessions of a workspace."""

    def __init__(self, store: Store, runner: TurnRunner, clock: Clock) -> None:
        self._store = store
        self._runner = runner
        self._clock = clock

    async def create(self, workspace: str, title: str, labels: Mapping[str, str]) -> Session:
        """Make a Session."""
        now = self._clock.now()
        session = Session(
            id=new_id(),
            workspace=workspace,
            title=title,
            state=SessionState.ACTIVE,
            checkpoint_version=0,
            create_time=now,
            update_time=now,
            labels=labels,
        )
        await self._store.sessions.insert(session)
        return session

    async def get(self, workspace: str, session_id: str) -> Session:
        """A Session.

        Raises:
            FleetError: SESSION_NOT_FOUND.
        """
        return await self._store.sessions.get(workspace, session_id)

    async def page(self, workspace: str, state: SessionState | None, size: int, token: str) -> Page[Session]:
        """A page of the workspace's Sessions, latest update first.

        Raises:
            FleetError: PAGE_TOKEN_INVALID.
        """
        scope = f"sessions:{workspace}:{state or ''}"
        count = pages.page_size(size)
        found = await self._store.sessions.page(workspace, state, pages.decode(scope, token), count + 1)
        return pages.page_of(scope, found, count, lambda each: (each.update_time, each.id))

    async def update(self, workspace: str, session_id: str, patch: SessionPatch, etag: str) -> Session:
        """Change a Session; an archived one gives its runtime up.

        Raises:
            FleetError: SESSION_NOT_FOUND, ETAG_MISMATCH, TURN_IN_PROGRESS.
        """
        session = await self._store.sessions.update(workspace, session_id, patch, etag, self._clock.now())
        if session.state is SessionState.ARCHIVED:
            await self._runner.forget(session_id)
        return session

    async def delete(self, workspace: str, session_id: str) -> None:
        """Delete a Session with its Turns, events and runtime.

        Raises:
            FleetError: SESSION_NOT_FOUND, TURN_IN_PROGRESS.
        """
        await self._store.sessions.delete(workspace, session_id)
        await self._runner.forget(session_id)
