"""The children of one call: in parallel, outcomes in input order, siblings independent of each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from services.common.errors import FleetError
from services.common.logging import get_logger
from services.recursion.children.outcomes import Outcome
from services.recursion.children.run import ChildRun
from services.recursion.runs.active import ActiveTurn

_log = get_logger(__name__)


async def run_batch(runs: Sequence[ChildRun], turn: ActiveTurn) -> list[Outcome]:
    """Run all children; how many at one moment is the Turn's to say.

    A child that fails is an outcome like any other. What is fatal to one child stops the Turn's others, each of which
    still gets an outcome of its own, and is raised when all have ended.

    Raises:
        FleetError: what was fatal, or why the Turn's children were stopped.
    """
    results = await asyncio.gather(*(_run(run, turn) for run in runs))
    if turn.cause is not None:
        raise turn.cause
    return [outcome for outcome in results if outcome is not None]


async def _run(run: ChildRun, turn: ActiveTurn) -> Outcome | None:
    try:
        return await run.run()
    except FleetError as error:
        turn.stop(error)
    except Exception:  # noqa: BLE001 - logged, and fatal to the call
        _log.exception("a child's books could not be kept", turn=turn.ledger.turn)
        turn.stop(FleetError("INTERNAL", "A child's outcome could not be written down."))
    return None
