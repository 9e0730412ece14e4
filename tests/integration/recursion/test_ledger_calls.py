"""The ledger over gRPC: who may ask what, and what is answered."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from fleet.recursion.v1 import child_pb2, ledger_pb2, recursion_service_pb2

from services.common import keys
from services.rlm.budget.gate import Dimension, from_wire
from tests.integration.recursion.rig import LIMITS, Replica, Turn, make_policy, open_request, refused, serving

LLM = Dimension.LLM_CALLS


async def test_a_turn_from_its_opening_to_its_settlement(any_replica: Replica) -> None:
    turn = await any_replica.open()
    assert (await turn.reserve("r1", LLM, 3)).used == 3
    assert (await turn.refund("r1", 1)).used == 2
    budget = await turn.budget()
    assert budget.state == ledger_pb2.LEDGER_STATE_OPEN
    lines = {from_wire(line.dimension): (line.used, line.limit) for line in budget.lines}
    assert {dimension: limit for dimension, (_, limit) in lines.items()} == dict(LIMITS)
    assert lines[LLM] == (2, 32)
    settled = await turn.settle()
    assert settled.state == ledger_pb2.LEDGER_STATE_SETTLED
    assert (await turn.settle()).state == ledger_pb2.LEDGER_STATE_SETTLED
    async with refused("LEDGER_CLOSED"):
        await turn.reserve("r2", LLM)
    async with refused("LEDGER_CLOSED"):
        await turn.run("late")


async def test_opening_again_is_the_same_on_the_same_terms_only(replica: Replica) -> None:
    request = open_request("t-again".replace("-", ""))
    first = await replica.stub.OpenTurn(request)
    second = await replica.stub.OpenTurn(request)
    assert second.budget.lines == first.budget.lines
    request.limits[0].limit += 1
    async with refused("LEDGER_CONFLICT"):
        await replica.stub.OpenTurn(request)
    async with refused("LEDGER_CONFLICT"):
        await replica.stub.OpenTurn(
            open_request("tagain"), metadata=[("authorization", f"Bearer {replica.token(workspace='other')}")]
        )


async def test_terms_that_make_no_sense_are_refused(replica: Replica) -> None:
    twice = open_request("t1")
    twice.limits.append(twice.limits[0])
    spent = open_request("t1")
    spent.limits[0].used = 1
    for request in (twice, spent, open_request("t1", seconds=10, work_seconds=20), open_request("T 1")):
        async with refused("INVALID_ARGUMENT"):
            await replica.stub.OpenTurn(request)


async def test_only_the_turns_own_token_opens_its_books(replica: Replica) -> None:
    turn, other = await replica.open(), await replica.open()
    request = recursion_service_pb2.GetBudgetRequest(turn=turn.id)
    async with refused("PERMISSION_DENIED"):
        await replica.stub.GetBudget(request)
    async with refused("PERMISSION_DENIED"):
        await replica.stub.GetBudget(request, metadata=other.metadata)
    async with refused("UNAUTHENTICATED"):
        await replica.stub.GetBudget(request, metadata=[("authorization", "Bearer nonsense")])
    async with refused("PERMISSION_DENIED"):
        await replica.stub.OpenTurn(open_request("t9"), metadata=turn.metadata)
    elsewhere = Turn(replica.stub, turn.id, replica.token(workspace="other", turn=turn.id))
    async with refused("LEDGER_NOT_FOUND"):
        await elsewhere.budget()
    unknown = Turn(replica.stub, "unknown", replica.token(turn="unknown"))
    async with refused("LEDGER_NOT_FOUND"):
        await unknown.reserve("r1", LLM)


async def test_a_child_may_spend_but_neither_end_the_turn_nor_start_children(replica: Replica) -> None:
    turn = await replica.open()
    child = Turn(replica.stub, turn.id, replica.token(turn=turn.id, depth=1))
    assert (await child.reserve("c1", LLM)).used == 1
    for call in (child.settle(), child.abort()):
        async with refused("PERMISSION_DENIED"):
            await call
    async with refused("DEPTH_LIMIT"):
        await child.run("deeper")
    # Depth comes first, whoever asks and whatever Turn it is about.
    async with refused("DEPTH_LIMIT"):
        await Turn(replica.stub, "other", replica.token(depth=1)).run("deeper")
    assert await turn.used(Dimension.CHILD_CALLS) == 0


async def test_aborting_is_for_the_owner_and_for_its_successor(replica: Replica) -> None:
    turn = await replica.open(epoch=4)
    async with refused("OWNERSHIP_LOST"):
        await turn.abort(epoch=3)
    async with refused("LEDGER_NOT_FOUND"):
        await turn.abort(epoch=9, metadata=[("authorization", f"Bearer {replica.token(workspace='other')}")])
    # A replica that took the Session over has its own token only.
    aborted = await turn.abort(epoch=5, metadata=())
    assert aborted.state == ledger_pb2.LEDGER_STATE_ABORTED
    async with refused("LEDGER_CLOSED"):
        await turn.reserve("r1", LLM)
    async with refused("LEDGER_CLOSED"):
        await turn.settle()
    async with refused("OWNERSHIP_LOST"):
        await turn.abort(epoch=4)


async def test_seconds_pass_by_themselves(replica: Replica) -> None:
    turn = await replica.open({Dimension.SECONDS: 100}, seconds=70.0)
    assert await turn.used(Dimension.SECONDS) in (30, 31)
    async with refused("INVALID_ARGUMENT") as refusal:
        await turn.reserve("r1", Dimension.SECONDS)
    assert refusal.error.violations[0].field == "dimension"


async def test_64_callers_at_once_get_exactly_the_limit(any_replica: Replica) -> None:
    turn = await any_replica.open({LLM: 10})

    async def ask(number: int) -> bool:
        try:
            await turn.reserve(f"r{number}", LLM)
        except Exception:
            return False
        return True

    assert sum(await asyncio.gather(*(ask(number) for number in range(64)))) == 10


async def test_recursion_that_is_off_keeps_the_books_only(tmp_path: Path) -> None:
    async with serving(make_policy(tmp_path, "rlm.recursion_enabled=false")) as replica:
        assert not replica.engine.opened
        turn = await replica.open()
        assert (await turn.reserve("r1", LLM)).used == 1
        async with refused("RECURSION_DISABLED"):
            await turn.run(child_pb2.ChildTask(task="look"))


async def test_without_loopback_every_call_needs_a_token(tmp_path: Path) -> None:
    pem = keys.load_or_create_key(tmp_path / "keys")
    from cryptography.hazmat.primitives import serialization as s

    private = pem.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()).decode()
    public = pem.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo).decode()
    env = {"SIGNING": private, "VERIFY": public}
    policy = make_policy(tmp_path, "auth.mode=keys", "auth.signing_key_env=SIGNING", "auth.verify_keys_env=VERIFY")
    async with serving(policy, env=env) as replica:
        async with refused("UNAUTHENTICATED"):
            await replica.open()
        from services.common.tokens import Claims

        token = keys.signer(policy, env).sign(Claims("ws", "service:session"), 60)
        turn = await replica.open(metadata=[("authorization", f"Bearer {token}")])
        assert (await turn.reserve("r1", LLM)).used == 1


async def test_a_reservation_is_quick(replica: Replica) -> None:
    """A generous bound that only a change of kind would break; the figure itself is in the benchmark."""
    turn = await replica.open({LLM: 10_000})
    times: list[float] = []
    for number in range(200):
        begin = time.perf_counter()
        await turn.reserve(f"r{number}", LLM)
        times.append(time.perf_counter() - begin)
    assert sorted(times)[100] < 0.02
