"""Leases of resident runtimes: kept while they are wanted, gone when they aren't."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fleet.recursion.v1 import ledger_pb2, recursion_service_pb2
from fleet.sandbox.v1 import lease_pb2

from services.common import keys
from services.common.channel import open_channel
from services.common.errors import FleetError
from services.common.ids import new_id
from services.common.request_context import LOOPBACK
from services.common.token_sources import PrincipalTokens
from services.common.tokens import Claims
from services.session.running.clients.recursion import RecursionClient, TurnTerms
from services.session.running.clients.sandbox import LeaseOwner, SandboxClient
from services.session.running.recovery import RecoveryOfTurns
from services.session.running.residents.resident import SessionKey
from services.session.running.residents.runtime import SUBJECT, on_behalf_of
from services.session.turns.spending import Limits
from services.session.turns.turn import Turn, TurnInput, TurnState
from tests.fakes.scripted_llm import action
from tests.integration.session_running.rig import Stack, answer, kinds, last, of, running

pytestmark = pytest.mark.usefixtures("warm_llm")

SUBMIT = action("SUBMIT(answer='x')")
LIMITS = Limits(5, 5, 5, 2, 1000, 60)


async def until(holds: Callable[[list[lease_pb2.Lease]], bool], s: Stack, seconds: float = 5) -> list[lease_pb2.Lease]:
    end = time.monotonic() + seconds
    while not holds(leases := await s.leases()):
        assert time.monotonic() < end, leases
        await asyncio.sleep(0.02)
    return leases


async def test_a_lease_is_idle_between_turns_and_gone_after_the_service(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": lambda request: SUBMIT}) as s:
        await s.ask(await s.client.session(), "go")
        (lease,) = await until(lambda leases: [each.idle for each in leases] == [True], s)
        assert lease.kind == lease_pb2.LEASE_KIND_ROOT
        await s.session.stop(1)
        assert await s.leases() == []


async def test_a_failed_turns_lease_is_released_and_confirmed_gone(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": [action("x = 1")]}) as s:
        events = await s.ask(await s.client.session(), "go")
        assert last(events) == "turn_failed"
        await until(lambda leases: not leases, s)


async def test_a_lease_taken_away_between_turns_rotates(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": lambda request: SUBMIT}) as s:
        session = await s.client.session()
        await s.ask(session, "one")
        (lease,) = await s.leases()
        await s.release(lease.name)
        events = await s.ask(session, "two")
        answer(events)
        ready = of(events, "sandbox_ready")[0].sandbox_ready
        assert not ready.resident
        assert "lease was lost" in ready.rotation_reason


async def test_a_lease_taken_away_during_a_step_fails_the_turn(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": [action("print('begun', flush=True)\nimport time\ntime.sleep(60)")]}) as s:
        turn = await s.client.create(await s.client.session(), "go")
        watching = asyncio.create_task(s.client.watch(turn.name))
        while "output" not in kinds(await s.client.watch(turn.name, snapshot=True)):
            await asyncio.sleep(0.02)
        (lease,) = await s.leases()
        await s.release(lease.name)
        events = await asyncio.wait_for(watching, 10)
        assert last(events) == "turn_failed"
        assert events[-1].turn_failed.error.reason == "INTERPRETER_FAILED"


async def test_idle_residents_beyond_the_limit_are_evicted(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": lambda request: SUBMIT}, "runtime.max_resident_sessions=1") as s:
        sessions = [await s.client.session() for _ in range(2)]
        for session in sessions:
            answer(await s.ask(session, "go"))
        await until(lambda leases: len(leases) == 1, s)
        events = await s.ask(sessions[0], "again")
        assert "place" in of(events, "sandbox_ready")[0].sandbox_ready.rotation_reason


async def test_a_cancel_at_any_moment_leaves_one_end_and_no_sandbox(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": lambda request: SUBMIT}) as s:
        session = await s.client.session()
        for step in range(14):
            turn = await s.client.create(session, "go")
            await asyncio.sleep(step * 0.008)
            ended = await s.cancel(turn)
            assert ended.end_time.seconds, ended
            last(await s.client.watch(turn.name))
            await until(lambda leases: len([each for each in leases if not each.idle]) == 0, s)
        answer(await s.ask(session, "still there?"))
        await until(lambda leases: len(leases) == 1, s)


@pytest.mark.parametrize("down", ["sandbox", "recursion"])
async def test_a_service_that_is_down_fails_the_turn_and_is_named(tmp_path: Path, down: str) -> None:
    async with running(tmp_path, {"root": lambda request: SUBMIT}) as s:
        await s.servers[down].stop(0)
        events = await s.ask(await s.client.session(), "go")
        assert last(events) == "turn_failed"
        error = events[-1].turn_failed.error
        assert error.reason == "UNAVAILABLE"
        assert down in error.message


async def test_recovery_aborts_the_ledger_and_releases_the_leases(tmp_path: Path) -> None:
    async with running(tmp_path, {"root": []}) as s:
        services = s.policy.services
        tokens = PrincipalTokens(keys.signer(s.policy, {}), Claims(LOOPBACK.workspace, SUBJECT))

        def connect(address: str, service: str = "sandbox") -> object:
            return open_channel(address, service=service, tokens=tokens)

        sandbox = SandboxClient(services.sandbox.address, connect)  # type: ignore[arg-type]
        channel = open_channel(services.recursion.address, service="recursion", tokens=tokens)
        recursion = RecursionClient(channel)
        now = datetime.now(UTC)
        turn_id, session_id = new_id(), new_id()
        terms = TurnTerms(
            turn_id, session_id, 1, LIMITS.as_mapping(), now + timedelta(seconds=60), now + timedelta(seconds=50)
        )
        with on_behalf_of(SessionKey("local", session_id)):
            books = await recursion.open(terms)
            await sandbox.acquire("r1", LeaseOwner(session_id, turn_id), 30, 5)
        made = Turn(turn_id, session_id, "local", "r", "f", 1, TurnState.RUNNING, TurnInput("q"), LIMITS, now)
        spent = await RecoveryOfTurns(recursion, sandbox).clean_up(made, 2)
        assert {line.dimension for line in spent.budget} == set(LIMITS.as_mapping())
        assert await s.leases() == []
        with on_behalf_of(SessionKey("local", session_id)):
            with pytest.raises(FleetError, match="LEDGER"):
                await recursion.open(terms)
            request = recursion_service_pb2.GetBudgetRequest(turn=turn_id)
            budget = await books.stub.GetBudget(request, metadata=books.metadata)
            assert budget.state == ledger_pb2.LEDGER_STATE_ABORTED
        again = await RecoveryOfTurns(recursion, sandbox).clean_up(made, 3)
        assert again.budget
        await channel.close()
        await sandbox.close()


async def test_recovery_survives_services_that_are_gone() -> None:
    def connect(address: str, service: str = "sandbox") -> object:
        return open_channel("127.0.0.1:1", service=service, tokens=None)

    sandbox = SandboxClient("127.0.0.1:1", connect)  # type: ignore[arg-type]
    channel = open_channel("127.0.0.1:1", service="recursion", tokens=None)
    made = Turn("t", "s", "w", "r", "f", 1, TurnState.RUNNING, TurnInput("q"), LIMITS, datetime.now(UTC))
    began = time.monotonic()
    spent = await RecoveryOfTurns(RecursionClient(channel), sandbox).clean_up(made, 2)
    assert spent.budget == ()
    assert time.monotonic() - began < 21
    await channel.close()
    await sandbox.close()
