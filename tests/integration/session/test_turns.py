"""Turns over gRPC: admission, watching, cancelling."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fleet.common.v1 import budget_pb2
from fleet.session.v1 import session_service_pb2 as pb
from fleet.session.v1 import turn_event_pb2, turn_pb2
from google.protobuf.duration_pb2 import Duration

from services.session.events.turn_log import LogLimits
from tests.fakes import turn_engine
from tests.fakes.turn_engine import ScriptedEngine
from tests.integration.session.rig import Client, Replica, kinds, make_policy, refused, serving, turn_request

ECHO_KINDS = [
    "turn_started",
    "turn_phase",
    "turn_phase",
    "iteration_started",
    "code",
    "output",
    "turn_phase",
    "answer",
    "turn_completed",
]


async def test_run_turn_streams_every_event_and_ends(client: Client) -> None:
    session = await client.session()
    stream = client.sessions.RunTurn(turn_request(session, "what?"))
    events = [event async for batch in stream for event in batch.events]
    assert kinds(events) == ECHO_KINDS
    assert [event.sequence for event in events] == list(range(1, len(ECHO_KINDS) + 1))
    assert len({event.turn for event in events}) == 1
    turn = await client.turn(events[0].turn)
    assert turn.state == turn_pb2.TURN_STATE_COMPLETED
    assert turn.answer == "echo: what?"
    assert turn.outputs["answer"] == "echo: what?"
    assert turn.termination == turn_pb2.TERMINATION_SUBMIT
    assert turn.iterations == 1
    assert turn.usage.models[0].prompt_tokens == 100
    assert {line.dimension: line.used for line in turn.budget}[budget_pb2.BUDGET_DIMENSION_ITERATIONS] == 1
    assert events[-1].turn_completed.checkpoint_version == 1
    assert events[-2].answer.text == "echo: what?"
    assert turn.create_time.ToDatetime() <= turn.start_time.ToDatetime() <= turn.end_time.ToDatetime()
    found = await client.sessions.GetSession(pb.GetSessionRequest(name=session))
    assert found.checkpoint_version == 1
    assert not found.running_turn


async def test_same_request_attaches_and_other_input_is_refused(client: Client) -> None:
    session = await client.session()
    first = await client.create(session, "one", request_id="r")
    again = await client.create(session, "one", request_id="r")
    assert again.name == first.name
    stream = client.sessions.RunTurn(turn_request(session, "one", request_id="r"))
    assert kinds([event async for batch in stream for event in batch.events]) == ECHO_KINDS
    async with refused("REQUEST_ID_REUSED") as caught:
        await client.create(session, "two", request_id="r")
    assert caught["error"].metadata["turn"] == first.name
    assert caught["error"].violations[0].field == "request_id"
    other = await client.session()
    assert (await client.create(other, "two", request_id="r")).name != first.name


async def test_the_request_id_comes_before_everything_else(replica: Replica, client: Client) -> None:
    replica.engine.script = turn_engine.until_stopped
    session = await client.session()
    running = await client.create(session, "one", request_id="r")
    assert (await client.create(session, "one", request_id="r")).name == running.name
    async with refused("REQUEST_ID_REUSED"):
        await client.create(session, "two", request_id="r")
    async with refused("TURN_IN_PROGRESS") as caught:
        await client.create(session, "one", request_id="r2")
    assert caught["error"].metadata["turn"] == running.name
    found = await client.sessions.GetSession(pb.GetSessionRequest(name=session))
    assert found.running_turn == running.name


async def test_equal_requests_at_once_make_one_turn(replica: Replica, client: Client) -> None:
    replica.engine.script = turn_engine.until_stopped
    session = await client.session()
    made = await asyncio.gather(*(client.create(session, "one", request_id="r") for _ in range(8)))
    assert len({turn.name for turn in made}) == 1
    assert len(replica.engine.runs) == 1


async def test_different_requests_at_once_let_one_run(replica: Replica, client: Client) -> None:
    replica.engine.script = turn_engine.until_stopped
    session = await client.session()
    made = await asyncio.gather(*(client.create(session, str(i)) for i in range(6)), return_exceptions=True)
    assert sum(isinstance(each, turn_pb2.Turn) for each in made) == 1
    assert len(replica.engine.runs) == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"text": ""}, "text"),
        ({"text": " \n\t"}, "text"),
        ({"text": "x" * 100_001}, "text"),
        ({"request_id": "white space"}, "request_id"),
        ({"attachments": ["attachments/a", "attachments/a"]}, "attachments"),
        ({"budget": budget_pb2.BudgetLimits(iterations=10_000)}, "budget.iterations"),
        ({"budget": budget_pb2.BudgetLimits(child_calls=65)}, "budget.child_calls"),
        ({"timeout": Duration(seconds=80_000)}, "timeout"),
    ],
)
async def test_bad_input_names_the_field(client: Client, fields: dict[str, object], field: str) -> None:
    session = await client.session()
    async with refused("INVALID_ARGUMENT") as caught:
        await client.create(session, **fields)
    assert caught["error"].violations[0].field == field
    assert (await client.sessions.ListTurns(pb.ListTurnsRequest(parent=session))).turns == []


async def test_what_does_not_exist(client: Client) -> None:
    async with refused("SESSION_NOT_FOUND"):
        await client.create("sessions/none")
    session = await client.session()
    async with refused("ATTACHMENT_NOT_FOUND") as caught:
        await client.create(session, attachments=["attachments/a", "attachments/b"])
    assert caught["error"].metadata["attachments"] == "attachments/a, attachments/b"
    async with refused("SKILL_NOT_FOUND"):
        await client.create(session, skills=[turn_pb2.SkillSelection(id="x", version="1")])
    async with refused("TURN_NOT_FOUND"):
        await client.turn("sessions/-/turns/none")
    async with refused("TURN_NOT_FOUND"):
        await client.watch(f"{session}/turns/none")
    async with refused("TURN_NOT_FOUND"):
        await client.sessions.CancelTurn(pb.CancelTurnRequest(name="sessions/-/turns/none"))
    turn = await client.create(session)
    async with refused("TURN_NOT_FOUND"):
        await client.turn(f"sessions/other/turns/{turn.name.rpartition('/')[2]}")


async def test_another_workspace_sees_nothing(replica: Replica, client: Client) -> None:
    session = await client.session()
    turn = await client.create(session)
    attachment = await client.upload(b"x")
    stranger = replica.client_of("strangers")
    async with stranger.channel:
        async with refused("SESSION_NOT_FOUND"):
            await stranger.create(session)
        async with refused("TURN_NOT_FOUND"):
            await stranger.turn(turn.name)
        async with refused("TURN_NOT_FOUND"):
            await stranger.watch(turn.name)
        async with refused("SESSION_NOT_FOUND"):
            await stranger.sessions.ListTurns(pb.ListTurnsRequest(parent=session))
        own = await stranger.session()
        async with refused("ATTACHMENT_NOT_FOUND"):
            await stranger.create(own, attachments=[attachment.name])
        assert [each.name for each in (await stranger.sessions.ListSessions(pb.ListSessionsRequest())).sessions] == [
            own
        ]


async def test_limits_are_lowered_for_one_turn(replica: Replica, client: Client) -> None:
    budget = budget_pb2.BudgetLimits(iterations=2, llm_calls=3)
    session = await client.session()
    await client.create(session, budget=budget, timeout=Duration(seconds=7))
    (run,) = replica.engine.runs.values()
    assert (run.job.turn.limits.iterations, run.job.turn.limits.llm_calls) == (2, 3)
    assert run.job.turn.limits.tool_calls == replica.policy.rlm.max_tool_calls
    assert run.job.turn.limits.seconds == 7


async def test_watch_replays_after_a_sequence(client: Client) -> None:
    session = await client.session()
    turn = await client.create(session)
    whole = await client.watch(turn.name)
    short = "sessions/-/turns/" + turn.name.rpartition("/")[2]
    for after in range(len(whole) + 1):
        assert await client.watch(short, after) == whole[after:]
    assert await client.watch(turn.name, snapshot=True) == whole
    async with refused("SEQUENCE_OUT_OF_RANGE") as caught:
        await client.watch(turn.name, len(whole) + 1)
    assert caught["error"].metadata["last_sequence"] == str(len(whole))


async def test_snapshot_of_a_running_turn_ends(replica: Replica, client: Client) -> None:
    replica.engine.script = turn_engine.until_stopped
    session = await client.session()
    turn = await client.create(session)
    run = replica.engine.runs[turn.name.rpartition("/")[2]]
    await run.record.flush()
    events = await client.watch(turn.name, snapshot=True)
    assert kinds(events)[0] == "turn_started"
    assert "turn_completed" not in kinds(events)


async def test_many_events_reach_every_watcher_in_order(replica: Replica, client: Client) -> None:
    count = 4 * LogLimits().tail_events

    async def chatty(run: turn_engine.Running) -> None:
        await turn_engine.begin(run)
        for i in range(count):
            run.record.append("output", turn_event_pb2.StepOutput(iteration=1, text=f"{i};"))
            if i % 100 == 0:
                await asyncio.sleep(0)
        await turn_engine.complete(run, "done")

    replica.engine.script = chatty
    session = await client.session()
    turn = await client.create(session)
    watchers = await asyncio.gather(*(client.watch(turn.name, after) for after in (0, 0, 1, 5)))
    whole = watchers[0]
    assert [event.sequence for event in whole] == list(range(1, len(whole) + 1))
    text = "".join(event.output.text for event in whole if event.WhichOneof("payload") == "output")
    assert text == "".join(f"{i};" for i in range(count))
    assert watchers[1] == whole
    assert watchers[2] == whole[1:]
    assert watchers[3] == whole[5:]


async def test_cancel_ends_a_running_turn(replica: Replica, client: Client) -> None:
    replica.engine.script = turn_engine.until_stopped
    session = await client.session()
    turn = await client.create(session)
    request = pb.CancelTurnRequest(name=turn.name)
    cancelled = await client.sessions.CancelTurn(request)
    assert cancelled.state == turn_pb2.TURN_STATE_CANCELLED
    assert cancelled.error.reason == "TURN_CANCELLED"
    assert await client.sessions.CancelTurn(request) == cancelled
    assert kinds(await client.watch(turn.name))[-1] == "turn_cancelled"
    replica.engine.script = turn_engine.echo
    following = await client.create(session)
    await client.watch(following.name)
    assert (await client.turn(following.name)).state == turn_pb2.TURN_STATE_COMPLETED


async def test_closing_the_stream_leaves_the_turn_running_unless_asked(replica: Replica, client: Client) -> None:
    replica.engine.script = turn_engine.until_stopped
    names = {}
    for choice in (turn_pb2.ON_DISCONNECT_CONTINUE, turn_pb2.ON_DISCONNECT_CANCEL):
        stream = client.sessions.RunTurn(turn_request(await client.session(), on_disconnect=choice))
        names[choice] = (await stream.read()).events[0].turn
        stream.cancel()
    assert kinds(await client.watch(names[turn_pb2.ON_DISCONNECT_CANCEL]))[-1] == "turn_cancelled"
    assert (await client.turn(names[turn_pb2.ON_DISCONNECT_CONTINUE])).state == turn_pb2.TURN_STATE_RUNNING


async def test_capacity(tmp_path: Path) -> None:
    policy = make_policy(tmp_path, "runtime.max_concurrent_turns=1", "runtime.queue_seconds=0.2")
    async with serving(policy, ScriptedEngine(turn_engine.until_stopped)) as replica:
        client = replica.client
        first = await client.create(await client.session(), request_id="first")
        second = await client.session()
        async with refused("CAPACITY_EXHAUSTED") as caught:
            await client.create(second, request_id="second")
        assert caught["error"].retry_after
        assert (await client.create(first.session, request_id="first")).name == first.name
        waiting = asyncio.create_task(client.create(second, request_id="second"))
        await client.sessions.CancelTurn(pb.CancelTurnRequest(name=first.name))
        assert (await waiting).session == second


async def test_equal_requests_at_once_need_one_place(tmp_path: Path) -> None:
    policy = make_policy(tmp_path, "runtime.max_concurrent_turns=1", "runtime.queue_seconds=30")
    async with serving(policy, ScriptedEngine(turn_engine.until_stopped)) as replica:
        session = await replica.client.session()
        made = await asyncio.gather(*(replica.client.create(session, request_id="r") for _ in range(4)))
        assert len({turn.name for turn in made}) == 1


async def test_a_turn_that_its_runner_leaves_is_ended(replica: Replica, client: Client) -> None:
    replica.engine.script = turn_engine.leave
    turn = await client.create(await client.session())
    events = await client.watch(turn.name)
    assert events[-1].turn_failed.error.reason == "INTERNAL"
    assert (await client.turn(turn.name)).error.reason == "INTERNAL"


async def test_list_turns_in_pages(client: Client) -> None:
    session = await client.session()
    made = []
    for i in range(5):
        made.append((await client.create(session, str(i))).name)
        await client.watch(made[-1])
    token, found = "", []
    while True:
        request = pb.ListTurnsRequest(parent=session, page_size=2, page_token=token)
        page = await client.sessions.ListTurns(request)
        found += [turn.name for turn in page.turns]
        token = page.next_page_token
        if not token:
            break
    assert found == made
    first = await client.sessions.ListTurns(pb.ListTurnsRequest(parent=session, page_size=2))
    for bad in ("x", first.next_page_token[:-2], "%%%"):
        async with refused("PAGE_TOKEN_INVALID"):
            await client.sessions.ListTurns(pb.ListTurnsRequest(parent=session, page_token=bad))
    async with refused("PAGE_TOKEN_INVALID"):
        other = await client.session()
        await client.sessions.ListTurns(pb.ListTurnsRequest(parent=other, page_token=first.next_page_token))


async def test_shutdown_ends_running_turns(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    async with serving(policy, ScriptedEngine(turn_engine.until_stopped)) as replica:
        turn = await replica.client.create(await replica.client.session())
        watching = asyncio.create_task(replica.client.watch(turn.name))
        await replica.client.watch(turn.name, snapshot=True)
        await replica.server.stop(0.1)
        assert (await watching)[-1].turn_failed.error.reason == "SERVER_SHUTDOWN"
    async with serving(policy) as replica:
        found = await replica.client.turn(turn.name)
        assert found.error.reason == "SERVER_SHUTDOWN"
        assert kinds(await replica.client.watch(turn.name))[-1] == "turn_failed"
