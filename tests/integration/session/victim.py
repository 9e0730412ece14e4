"""A session service in a process of its own, to be killed: `python victim.py DATA_ROOT DATABASE_URL`.

A Turn whose text is "stay" runs until the end of the process and prints without pause; others are echoed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from fleet.session.v1 import turn_event_pb2 as pb

from services.session.main import build_service
from tests.fakes import turn_engine
from tests.fakes.turn_engine import Running, ScriptedEngine
from tests.integration.session.rig import make_policy

OVERRIDES = ("runtime.lease_seconds=1.5", "runtime.heartbeat_seconds=0.3")


async def stay(run: Running) -> None:
    if run.job.turn.input.text != "stay":
        await turn_engine.echo(run)
        return
    await turn_engine.begin(run)
    count = 0
    while True:
        run.record.append("output", pb.StepOutput(iteration=1, text=str(count)))
        count += 1
        await asyncio.sleep(0.001)


async def serve(root: str, url: str) -> None:
    server = build_service(
        make_policy(Path(root), *OVERRIDES),
        env={"FLEET_SESSION_DATABASE_URL": url},
        engine=lambda parts: ScriptedEngine(stay),
    )
    print(await server.start(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
