"""Memory of whole deployments that have answered once and wait."""

from __future__ import annotations

from bench.lineup import DENO, FLOOR, Lineup
from bench.processes import resident_mb
from bench.samples import Case, Row


def measure(peers: Lineup) -> list[Case]:
    """Measure everybody's processes; pages that several share count once."""
    rows = [Row(fleet.name, (resident_mb(fleet.deployment.processes()),)) for fleet in peers.fleets]
    rows.append(Row(FLOOR, (resident_mb(peers.floor.processes()),)))
    if peers.deno is not None:
        rows.append(Row(DENO, (resident_mb(peers.deno.processes()),)))
    note = "Fleet: all services, the gateway and the warm sandboxes. dspy.RLM: a Python process and its interpreter."
    return [Case("Memory of everything at rest", "MB", tuple(rows), (note,))]
