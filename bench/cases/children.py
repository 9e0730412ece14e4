"""Four child RLMs side by side."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from bench.lineup import DENO, FLOOR, Lineup
from bench.programs import CHILDREN, SPAWN
from bench.samples import Case, Interleaved, Measure

_ROUNDS = 3


def measure(peers: Lineup) -> list[Case]:
    """Measure one Turn with four children, each with an interpreter of its own."""
    with ExitStack() as stack:
        plan = Interleaved(_ROUNDS)
        for fleet in peers.fleets:
            session = stack.enter_context(fleet.session())
            fleet.ask(session, SPAWN)
            plan.add(fleet.name, _ms(partial(fleet.ask, session, SPAWN)))
        plan.add(FLOOR, _ms(partial(peers.floor.seconds, "children", question=SPAWN)))
        if peers.deno is not None:
            plan.add(DENO, _ms(partial(peers.deno.seconds, "children", question=SPAWN)), 1)
        note = "DSPy has no children of its own: its peers use a host tool that runs one RLM a task in a thread."
        return [plan.run(f"Turn with {CHILDREN} children at once", "ms", [note])]


def _ms(seconds: Measure) -> Measure:
    return lambda: 1000 * seconds()
