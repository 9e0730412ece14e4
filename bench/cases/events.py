"""How fast the events of a Turn are read."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from bench.lineup import Lineup
from bench.programs import ANSWERS, EVENTS
from bench.samples import Case, Interleaved

_ROUNDS = 5
_REPEATS = 4


def measure(peers: Lineup) -> list[Case]:
    """Measure the replay of a Turn with hundreds of events, from the service and through the gateway."""
    with ExitStack() as stack:
        plan = Interleaved(_ROUNDS)
        count = 0
        for fleet in peers.fleets:
            turn, answer = fleet.grpc.turn(stack.enter_context(fleet.session()), EVENTS)
            count = fleet.grpc.replay(turn)
            if answer != ANSWERS[EVENTS] or fleet.rest.replay(turn) != count:
                raise RuntimeError("the gateway shows other events than the service")
            plan.add(f"{fleet.name}, gRPC", partial(_rate, partial(fleet.grpc.replay, turn)))
            plan.add(f"{fleet.name}, gateway SSE", partial(_rate, partial(fleet.rest.replay, turn)))
        return [plan.run(f"Replay of a Turn with {count} events", "events/s", ["dspy.RLM has no events to read."])]


def _rate(replay: Callable[[], int]) -> float:
    begin = time.perf_counter()
    count = sum(replay() for _ in range(_REPEATS))
    return count / (time.perf_counter() - begin)
