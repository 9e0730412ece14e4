"""The store on SQLite and PostgreSQL: fences, transactions, and the rules that the database itself enforces."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from sqlmodel import select

from services.common import migrations
from services.common.database import Database
from services.common.errors import FleetError
from services.session.attachments.attachment import Attachment
from services.session.events.payloads import last_events
from services.session.events.turn_log import EventWrite
from services.session.sessions.session import SessionPatch
from services.session.store import Store
from services.session.store.models import METADATA, EventRow
from services.session.store.rows import row_of_turn
from services.session.turns.turn import HistoryRecord, TurnState
from tests.integration.session import stored
from tests.integration.session.stored import COMMIT, FAILED, NOW, admit, claim, events, later, make_turn, stored_session


@pytest.fixture
async def database(database_url: str, store: Store) -> Any:
    made = Database(database_url)
    yield made
    await made.close()


async def reason(awaitable: Any) -> str:
    with pytest.raises(FleetError) as caught:
        await awaitable
    return caught.value.reason


async def test_migrations_make_what_the_models_say(database_url: str, store: Store) -> None:
    assert await migrations.differences("session", database_url, METADATA) == []
    await migrations.check("session", database_url)
    await migrations.upgrade("session", database_url)


async def test_a_turn_comes_back_as_it_was_stored(store: Store) -> None:
    session = await stored_session(store)
    turn = make_turn(session, (await claim(store, session)).epoch, text="nul \x00, surrogate \ud800, ü, \U0001f600")
    assert (await admit(store, turn)).turn == turn
    assert await store.turns.get("local", turn.id) == turn
    assert await store.turns.find_request(session.id, turn.request_id) == turn
    assert (await store.sessions.get("local", session.id)).running_turn == turn.id
    assert await reason(store.turns.get("strangers", turn.id)) == "TURN_NOT_FOUND"


async def test_admission_rules(store: Store) -> None:
    session = await stored_session(store)
    epoch = (await claim(store, session)).epoch
    turn = make_turn(session, epoch)
    assert await reason(admit(store, replace(turn, epoch=epoch + 1))) == "OWNERSHIP_LOST"
    assert await reason(admit(store, make_turn(session, epoch, attachments=("a",)))) == "ATTACHMENT_NOT_FOUND"
    assert (await admit(store, turn)).fresh
    again = await admit(store, replace(make_turn(session, epoch), request_id=turn.request_id))
    assert (again.turn, again.fresh) == (turn, False)
    assert await reason(admit(store, make_turn(session, epoch))) == "TURN_IN_PROGRESS"


async def test_two_admissions_at_once(store: Store) -> None:
    session = await stored_session(store)
    epoch = (await claim(store, session)).epoch
    made = await asyncio.gather(*(admit(store, make_turn(session, epoch)) for _ in range(5)), return_exceptions=True)
    assert sorted(getattr(each, "reason", "admitted") for each in made) == ["TURN_IN_PROGRESS"] * 4 + ["admitted"]


async def test_commit_is_one_transaction(store: Store) -> None:
    session = await stored_session(store)
    turn = await stored.running_turn(store, session)
    assert await store.events.append([EventWrite(turn, events(turn, 2, 3))]) == frozenset()
    ended = await store.endings.commit(turn, turn.epoch, COMMIT, later(5), last_events)
    assert [(event.sequence, event.kind) for event in ended.events] == [(4, "answer"), (5, "turn_completed")]
    found = await store.turns.get("local", turn.id)
    assert (found.state, found.answer, found.outputs) == (TurnState.COMPLETED, "42", COMMIT.outputs)
    assert (found.termination, found.checkpoint_version, found.iterations) == (COMMIT.termination, 1, 3)
    assert (found.start_time, found.end_time, found.trace_id) == (NOW, later(5), COMMIT.trace_id)
    assert found.budget == turn.budget
    assert await store.turns.history(session.id) == (HistoryRecord("?", "42"),)
    assert (await store.sessions.get("local", session.id)).checkpoint_version == 1
    assert [event.sequence for event in await store.events.read(turn.id, 0, 100)] == [1, 2, 3, 4, 5]


async def test_nothing_is_left_of_a_commit_that_fails(store: Store) -> None:
    session = await stored_session(store)
    turn = await stored.running_turn(store, session)

    def broken(*_: object) -> Any:
        raise RuntimeError("no events")

    with pytest.raises(RuntimeError):
        await store.endings.commit(turn, turn.epoch, COMMIT, NOW, broken)
    assert await store.turns.get("local", turn.id) == replace(turn, start_time=NOW)
    assert (await store.sessions.get("local", session.id)).checkpoint_version == 0
    assert await store.events.last_sequence(turn.id) == 1


async def test_only_a_settling_turn_is_committed_and_states_go_forward(store: Store) -> None:
    turn = await stored.running_turn(store, await stored_session(store), state=TurnState.RUNNING)
    with pytest.raises(ValueError, match="can't be committed"):
        await store.endings.commit(turn, turn.epoch, COMMIT, NOW, last_events)
    for state in (TurnState.PREPARING, TurnState.COMPLETED, TurnState.FAILED, TurnState.RUNNING):
        with pytest.raises(ValueError, match="can't become"):
            await store.turns.set_state(turn, turn.epoch, state, NOW)


async def test_an_ended_turn_takes_no_more_writes(store: Store) -> None:
    turn = await stored.running_turn(store, await stored_session(store))
    ended = await store.endings.end(turn, turn.epoch, FAILED, later(1), last_events)
    assert [event.kind for event in ended.events] == ["turn_failed"]
    assert await reason(store.endings.end(turn, turn.epoch, FAILED, NOW, last_events)) == "OWNERSHIP_LOST"
    assert await reason(store.endings.commit(turn, turn.epoch, COMMIT, NOW, last_events)) == "OWNERSHIP_LOST"
    assert await reason(store.turns.set_state(turn, turn.epoch, TurnState.SETTLING, NOW)) == "OWNERSHIP_LOST"
    assert await reason(store.turns.progress(turn, turn.epoch, 1, ())) == "OWNERSHIP_LOST"
    assert await store.events.append([EventWrite(turn, events(turn, 9))]) == {turn.id}
    assert await store.turns.history(turn.session) == ()


async def test_every_write_of_a_former_owner_is_refused(store: Store) -> None:
    session = await stored_session(store)
    turn = await stored.running_turn(store, session)
    taken = await claim(store, session, "b", at=61)
    assert (taken.owner, taken.epoch) == ("b", turn.epoch + 1)
    assert await reason(store.turns.progress(turn, turn.epoch, 1, ())) == "OWNERSHIP_LOST"
    assert await reason(store.endings.commit(turn, turn.epoch, COMMIT, NOW, last_events)) == "OWNERSHIP_LOST"
    assert await store.events.append([EventWrite(turn, events(turn, 2))]) == {turn.id}
    assert await store.events.last_sequence(turn.id) == 1
    await store.endings.end(turn, taken.epoch, FAILED, NOW, last_events)


async def test_a_refused_turn_keeps_no_other_from_its_events(store: Store) -> None:
    lost = await stored.running_turn(store, await stored_session(store))
    alive = await stored.running_turn(store, await stored_session(store))
    await store.endings.end(lost, lost.epoch, FAILED, NOW, last_events)
    writes = [EventWrite(lost, events(lost, 5)), EventWrite(alive, events(alive, *range(2, 1_300)))]
    assert await store.events.append(writes) == {lost.id}
    assert await store.events.append(writes) == {lost.id}
    assert await store.events.last_sequence(alive.id) == 1_299
    assert [event.sequence for event in await store.events.read(alive.id, 1_296, 10)] == [1_297, 1_298, 1_299]


async def test_ownership(store: Store) -> None:
    session = await stored_session(store)
    first = await claim(store, session, "a")
    assert (first.owner, first.address, first.epoch) == ("a", "a:1", 1)
    assert await claim(store, session, "b", at=59) == first
    renewed = await claim(store, session, "a", at=30)
    assert (renewed.epoch, renewed.expires) == (1, later(90))
    assert (await claim(store, session, "a", at=500)).epoch == 1
    assert await store.owners.renew("b", [session.id], later(999)) == frozenset()
    assert await store.owners.renew("a", [session.id, "none"], later(600)) == {session.id}
    assert (await claim(store, session, "b", at=599)).owner == "a"
    await store.owners.release("a", later(599))
    assert (await claim(store, session, "b", at=599)).epoch == 2
    await store.owners.expire_others("b", later(600))
    assert (await claim(store, session, "c", at=600)).owner == "b"
    await store.owners.expire_others("c", later(600))
    assert (await claim(store, session, "c", at=600)).epoch == 3
    assert await reason(claim(store, replace(session, id="none"))) == "SESSION_NOT_FOUND"


async def test_one_of_many_claims_wins(store: Store) -> None:
    session = await stored_session(store)
    owners = await asyncio.gather(*(claim(store, session, name) for name in "abcdef"))
    assert len({(each.owner, each.epoch) for each in owners}) == 1
    taken = await asyncio.gather(*(claim(store, session, name, at=61) for name in "ghijkl"))
    assert {each.epoch for each in taken} == {2}


async def test_orphans_are_running_turns_of_expired_owners(store: Store) -> None:
    turn = await stored.running_turn(store, await stored_session(store))
    idle = await stored_session(store)
    await claim(store, idle)
    assert await store.owners.orphans("b", later(59), 10) == []
    assert await store.owners.orphans("a", later(61), 10) == []
    assert [each.id for each in await store.owners.orphans("b", later(61), 10)] == [turn.id]


async def test_deleting_a_session_deletes_all_of_it(store: Store, database: Database) -> None:
    session = await stored_session(store)
    turn = await stored.running_turn(store, session)
    assert await reason(store.sessions.delete("local", session.id)) == "TURN_IN_PROGRESS"
    await store.endings.end(turn, turn.epoch, FAILED, NOW, last_events)
    assert await reason(store.sessions.delete("strangers", session.id)) == "SESSION_NOT_FOUND"
    await store.sessions.delete("local", session.id)
    for table in METADATA.sorted_tables:
        async with database.reading() as db:
            assert (await db.exec(select(table))).all() == [], table.name


async def test_deleting_an_attachment_waits_for_no_turn_but_is_refused(store: Store) -> None:
    session = await stored_session(store)
    epoch = (await claim(store, session)).epoch
    attachment = Attachment("att1", "local", "nul\x00", "text/plain", 1, "0" * 64, NOW, "attachments/att1")
    await store.attachments.insert(attachment)
    turn = make_turn(session, epoch, attachments=("att1",))
    made = await asyncio.gather(admit(store, turn), store.attachments.delete("local", "att1"), return_exceptions=True)
    reasons = [getattr(each, "reason", "done") for each in made]
    assert reasons in (["done", "ATTACHMENT_IN_USE"], ["ATTACHMENT_NOT_FOUND", "done"])


@pytest.mark.parametrize(
    "broken",
    [
        {"state": "DREAMING"},
        {"state": "COMPLETED"},
        {"state": "FAILED", "end_time": NOW},
        {"end_time": NOW},
        {"answer": "early"},
        {"error": {"reason": "x", "message": "y"}},
        {"state": "COMPLETED", "end_time": NOW, "answer": "a", "outputs": {}, "checkpoint_version": 1},
        {"state": "COMPLETED", "end_time": NOW, "answer": "a", "termination": "submit", "checkpoint_version": 1},
        {"state": "COMPLETED", "end_time": NOW, "outputs": {}, "termination": "submit", "checkpoint_version": 1},
        {"state": "COMPLETED", "end_time": NOW, "answer": "a", "outputs": {}, "termination": "submit"},
        {"session_id": "none"},
    ],
)
async def test_the_database_refuses_turns_of_a_wrong_shape(
    store: Store, database: Database, broken: dict[str, Any]
) -> None:
    row = row_of_turn(make_turn(await stored_session(store), 1))
    for column, value in broken.items():
        setattr(row, column, value)
    with pytest.raises(IntegrityError):
        async with database.transaction() as db:
            db.add(row)


async def test_the_database_refuses_what_must_be_unique(store: Store, database: Database) -> None:
    session = await stored_session(store)
    turn = await stored.running_turn(store, session)
    done = {"state": "CANCELLED", "end_time": NOW, "error": {"reason": "x", "message": "y"}}
    second_active = row_of_turn(make_turn(session, 1))
    same_request = row_of_turn(replace(make_turn(session, 1), request_id=turn.request_id))
    for column, value in done.items():
        setattr(same_request, column, value)
    same_sequence = EventRow(turn_id=turn.id, sequence=1, kind="output", time=NOW, data=b"")
    for row in (second_active, same_request, same_sequence):
        with pytest.raises(IntegrityError):
            async with database.transaction() as db:
                db.add(row)
    ended = row_of_turn(make_turn(session, 1))
    for column, value in done.items():
        setattr(ended, column, value)
    async with database.transaction() as db:
        db.add(ended)


async def test_sessions_are_updated_under_their_etag(store: Store) -> None:
    session = await stored_session(store)
    update = store.sessions.update
    changes = [update("local", session.id, SessionPatch(title=str(i)), session.etag, later(1)) for i in range(4)]
    made = await asyncio.gather(*changes, return_exceptions=True)
    assert sorted(getattr(each, "reason", "done") for each in made) == ["ETAG_MISMATCH"] * 3 + ["done"]
