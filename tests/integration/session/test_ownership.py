"""Who may run a Session's Turns: one replica at a time, and another one after its end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fleet.session.v1 import session_service_pb2 as pb
from fleet.session.v1 import turn_pb2

from config.problem import ConfigError
from services.common.channel import open_channel
from services.common.database import Database
from services.session.main import build_service
from services.session.store import Ownership, Store
from tests.fakes import turn_engine
from tests.fakes.turn_engine import ScriptedEngine
from tests.integration.session.rig import Client, Replica, kinds, make_policy, refused, serving, turn_request
from tests.integration.session.victim import OVERRIDES

QUICK = ("runtime.lease_seconds=30", "runtime.heartbeat_seconds=0.3")
"""Heartbeats that tests can wait for, and leases that a busy machine doesn't let run out."""

ROOT = Path(__file__).parents[3]


def env(url: str) -> dict[str, str]:
    return {"FLEET_SESSION_DATABASE_URL": url}


@asynccontextmanager
async def victim(root: Path, url: str) -> AsyncIterator[tuple[Client, asyncio.subprocess.Process]]:
    script = str(Path(__file__).with_name("victim.py"))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'gen'}"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, str(root), url, stdout=asyncio.subprocess.PIPE, env=environment
    )
    try:
        assert process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        async with open_channel(address, service="session", tokens=None) as channel:
            yield Client(channel), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_committed_turns_outlive_a_kill_and_the_running_one_fails(tmp_path: Path, database_url: str) -> None:
    async with victim(tmp_path, database_url) as (client, process):
        session = await client.session()
        done = await client.create(session, "keep me")
        seen = await client.watch(done.name)
        lost = await client.create(session, "stay", request_id="stay")
        stream = client.sessions.WatchTurn(pb.WatchTurnRequest(turn=lost.name))
        shown = []
        while len(shown) < 50:
            shown += (await stream.read()).events
        process.kill()
        await process.wait()
    async with serving(make_policy(tmp_path, *OVERRIDES), env=env(database_url)) as replica:
        client = replica.client
        assert await client.watch(done.name) == seen
        assert (await client.turn(done.name)).answer == "echo: keep me"
        events = await client.watch(lost.name)
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert events[: len(shown)] == shown
        assert events[-1].turn_failed.error.reason == "OWNER_LOST"
        assert events[-1].turn_failed.checkpoint_version == 1
        turn = await client.turn(lost.name)
        assert (turn.state, turn.error.reason) == (turn_pb2.TURN_STATE_FAILED, "OWNER_LOST")
        assert replica.engine.cleaned == [(lost.name.rpartition("/")[2], 2)]
        assert (await client.create(session, "stay", request_id="stay")).name == lost.name
        following = await client.create(session, "and on")
        assert kinds(await client.watch(following.name))[-1] == "turn_completed"


@asynccontextmanager
async def store_at(url: str) -> AsyncIterator[Store]:
    database = Database(url)
    try:
        yield Store(database)
    finally:
        await database.close()


async def steal(store: Store, session: str) -> Ownership:
    """Claim a Session for a third replica, which gets it only when its owner's lease is over."""
    now = datetime.now(UTC)
    wanted = Ownership(session.removeprefix("sessions/"), "thief", "thief:1", 1, now + timedelta(seconds=600))
    return await store.owners.claim(wanted, now)


@asynccontextmanager
async def two_replicas(root: Path, url: str) -> AsyncIterator[tuple[Replica, Replica]]:
    policy = make_policy(root, *QUICK)
    async with serving(policy, ScriptedEngine(turn_engine.until_stopped), env(url)) as first:
        async with serving(policy, ScriptedEngine(turn_engine.until_stopped), env(url)) as second:
            yield first, second


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_another_replica_reads_and_points_to_the_owner(tmp_path: Path, database_url: str) -> None:
    async with two_replicas(tmp_path, database_url) as (first, second):
        session = await first.client.session()
        turn = await first.client.create(session, "?", request_id="r")
        calls = (
            second.client.create(session, "another"),
            second.client.sessions.CancelTurn(pb.CancelTurnRequest(name=turn.name)),
        )
        for call in calls:
            async with refused("NOT_OWNER") as caught:
                await call
            assert caught["error"].metadata["address"] == first.address
        assert (await second.client.turn(turn.name)).request_id == "r"
        live = second.client.sessions.RunTurn(turn_request(session, "?", request_id="r"))
        batches = aiter(live)
        shown = list((await anext(batches)).events)
        first.engine.runs[turn.name.rpartition("/")[2]].released.set()
        shown += [event async for batch in batches for event in batch.events]
        assert kinds(shown)[-1] == "turn_completed"
        assert shown == await first.client.watch(turn.name)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_heartbeats_keep_a_session_whose_turn_runs_long(tmp_path: Path, database_url: str) -> None:
    policy = make_policy(tmp_path, *QUICK)
    async with serving(policy, ScriptedEngine(turn_engine.until_stopped), env(database_url)) as replica:
        turn = await replica.client.create(await replica.client.session())
        async with store_at(database_url) as store:
            held = await steal(store, turn.session)
            assert held.owner != "thief"
            async with asyncio.timeout(5):
                while (await steal(store, turn.session)).expires <= held.expires:
                    await asyncio.sleep(0.02)
        assert (await replica.client.turn(turn.name)).state == turn_pb2.TURN_STATE_RUNNING


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_stopped_replica_hands_its_sessions_over(tmp_path: Path, database_url: str) -> None:
    async with two_replicas(tmp_path, database_url) as (first, second):
        session = await first.client.session()
        turn = await first.client.create(session)
        await first.server.stop(0)
        assert (await second.client.turn(turn.name)).error.reason == "SERVER_SHUTDOWN"
        assert (await second.client.create(session)).session == session


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_replica_that_lost_a_session_stops_its_turn(tmp_path: Path, database_url: str) -> None:
    policy = make_policy(tmp_path, *QUICK)
    async with serving(policy, ScriptedEngine(turn_engine.until_stopped), env(database_url)) as replica:
        session = await replica.client.session()
        turn = await replica.client.create(session)
        async with store_at(database_url) as store:
            # A heartbeat between the two statements renews the lease, and they are repeated.
            await store.owners.expire_others("thief", datetime.now(UTC))
            while (await steal(store, session)).owner != "thief":
                await store.owners.expire_others("thief", datetime.now(UTC))
        async with asyncio.timeout(5):
            while not replica.engine.forgotten:
                await asyncio.sleep(0.02)
        run = replica.engine.runs[turn.name.rpartition("/")[2]]
        run.stopped.set()
        async with refused("NOT_OWNER"):
            await replica.client.create(session)
        assert (await replica.client.turn(turn.name)).state == turn_pb2.TURN_STATE_RUNNING


async def test_a_data_root_has_one_service(tmp_path: Path) -> None:
    async with serving(make_policy(tmp_path)):
        server = build_service(make_policy(tmp_path), env={}, engine=lambda parts: ScriptedEngine())
        with pytest.raises(ConfigError, match="in use by another session service"):
            await server.start()
        await server.stop(0)
