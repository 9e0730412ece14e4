"""A recursion service in a process of its own, whose children never end: a test kills it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from services.recursion.children.ports import Answer, Job
from services.recursion.main import build_service
from tests.fakes.child_engine import ScriptedEngine
from tests.fakes.child_sandboxes import FakeBroker
from tests.integration.recursion.rig import make_policy


async def _forever(job: Job) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError


async def _serve(root: str, url: str, overrides: list[str]) -> None:
    env = {"FLEET_RECURSION_DATABASE_URL": url}
    service = build_service(
        make_policy(Path(root), *overrides), env=env, brokers=FakeBroker(), engine=ScriptedEngine(_forever)
    )
    print(await service.start(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2], sys.argv[3:]))
