"""Runs admitted Turns, one task each: implements `services.session.runner.TurnRunner`."""

from __future__ import annotations

import asyncio

from services.common.errors import FleetError
from services.common.logging import get_logger
from services.session.runner import TurnRecord
from services.session.running.background import BackgroundTasks
from services.session.running.residents.registry import ResidentRegistry
from services.session.running.residents.runtime import TurnRuntime
from services.session.running.turn_run import RunParts, TurnRun
from services.session.turns.turn import TurnJob

_log = get_logger(__name__)

_STOP_SECONDS = 10.0
"""How long stopped Turns may take to store their ends at shutdown."""

_RELEASE_SECONDS = 10.0
"""How long the release of leases may take at shutdown; what is left ends with its lease."""


class ResidentTurnRunner:
    """Owns every running Turn's task, what outlives a Turn, and the resident runtimes."""

    def __init__(self, parts: RunParts) -> None:
        """A runner without Turns; `open` before the first."""
        self._parts = parts
        self._background = BackgroundTasks("turn runner")
        self._runs: dict[str, tuple[TurnRun, asyncio.Task[None]]] = {}

    @property
    def registry(self) -> ResidentRegistry[TurnRuntime]:
        """The resident runtimes."""
        return self._parts.preparation.registry

    def open(self) -> None:
        """Begin renewing leases and evicting idle residents, on the running loop."""
        self.registry.start()

    def start(self, job: TurnJob, record: TurnRecord) -> asyncio.Task[None]:
        """Start a Turn. The task ends when the Turn has ended, and never raises for a failed Turn."""
        run = TurnRun(job, record, self._parts, self._background)
        task = asyncio.create_task(run.run(), name=f"turn {job.turn.id}")
        self._runs[job.turn.id] = run, task
        task.add_done_callback(lambda _: self._ended(job.turn.id))
        return task

    def cancel(self, turn_id: str) -> bool:
        """Ask a Turn to end as CANCELLED; says whether it runs here. A commit that has begun wins."""
        return self._stop(turn_id, FleetError("TURN_CANCELLED", "The Turn was cancelled."))

    async def forget(self, session_id: str) -> None:
        """Close the resident runtime of a Session that was deleted or archived, or whose ownership is gone."""
        lost = FleetError("OWNERSHIP_LOST", "Another replica owns the Session.")
        tasks = [task for run, task in self._runs.values() if run.session == session_id]
        for turn_id, (run, _) in list(self._runs.items()):
            if run.session == session_id:
                self._stop(turn_id, lost)
        if tasks:
            await asyncio.wait(tasks)
        for resident in self.registry.residents():
            if resident.key.session == session_id:
                await self.registry.forget(resident.key, "the Session was closed")

    async def drain(self, seconds: float) -> None:
        """Give running Turns that long, then end them as FAILED/SERVER_SHUTDOWN; close every runtime."""
        await self._wait(seconds)
        shutdown = FleetError("SERVER_SHUTDOWN", "The server shut down before the Turn ended.")
        for turn_id in list(self._runs):
            self._stop(turn_id, shutdown)
        await self._wait(_STOP_SECONDS)
        for _, task in list(self._runs.values()):
            task.cancel()
        await self._wait(_STOP_SECONDS)
        if not await self.registry.close(_RELEASE_SECONDS):
            _log.warning("sandboxes are left to the end of their leases")
        await self._background.close()

    def _stop(self, turn_id: str, failure: FleetError) -> bool:
        found = self._runs.get(turn_id)
        if found is None:
            return False
        found[0].stop(failure)
        return True

    async def _wait(self, seconds: float) -> None:
        tasks = [task for _, task in self._runs.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _ended(self, turn_id: str) -> None:
        _, task = self._runs.pop(turn_id)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("turn's task failed", turn=turn_id, exc_info=error)
