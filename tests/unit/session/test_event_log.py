"""The event log: order, durability before delivery, pressure and memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest
from fleet.session.v1 import turn_event_pb2 as pb
from hypothesis import given, settings
from hypothesis import strategies as st

from services.common.clock import SystemClock
from services.session.events.log import EventLog
from services.session.events.turn_log import LogLimits, StoredEvent, TurnLog, make_event
from services.session.turns.turn import TurnState
from tests.fakes.memory_event_store import MemoryEventStore
from tests.unit.session.making import NOW, make_turn

ENDED = pb.TurnEnded()
MakeLog = Callable[[LogLimits], EventLog]


@pytest.fixture
async def store() -> MemoryEventStore:
    return MemoryEventStore()


@pytest.fixture
async def make_log(store: MemoryEventStore) -> AsyncIterator[MakeLog]:
    made: list[EventLog] = []

    def make(limits: LogLimits) -> EventLog:
        log = EventLog(store, SystemClock(), limits)
        log.start()
        made.append(log)
        return log

    yield make
    store.open.set()
    for log in made:
        await log.stop()


@pytest.fixture
async def events(make_log: MakeLog) -> EventLog:
    return make_log(LogLimits())


def output(text: str) -> pb.StepOutput:
    return pb.StepOutput(iteration=1, text=text)


async def end(events: EventLog, log: TurnLog, store: MemoryEventStore) -> None:
    """What the record of a Turn does at its end."""
    await log.close(5)
    last = make_event(log.turn.name, len(store.rows[log.turn.id]) + 1, NOW, "turn_completed", ENDED)
    store.insert(log.turn.id, [last])
    store.ended.add(log.turn.id)
    log.written([last])
    events.release(log.turn.id)


async def watched(events: EventLog, after: int = 0, *, snapshot: bool = False, ended: bool = False) -> list[int]:
    turn = make_turn(state=TurnState.COMPLETED if ended else TurnState.RUNNING)
    return [event.sequence async for batch in events.watch(turn, after, snapshot=snapshot) for event in batch]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60), st.integers(0, 5))
def test_watchers_see_every_event_once_in_order(steps: list[tuple[int, bool]], failures: int) -> None:
    """Events of several threads, with pauses, flushes and a database that fails at first."""

    async def check() -> None:
        store = MemoryEventStore()
        events = EventLog(store, SystemClock(), LogLimits(retry_seconds=0.001))
        events.start()
        log = events.open(make_turn(), 1)
        watchers = [asyncio.create_task(watched(events, after)) for after in (0, 0, 3)]
        store.failures = failures
        for count, flush in steps:
            for _ in range(count):
                await asyncio.to_thread(log.append, "output", output("x"))
            if flush:
                await log.flush()
        await end(events, log, store)
        expected = list(range(1, sum(count for count, _ in steps) + 2))
        first, second, later = await asyncio.gather(*watchers)
        assert first == second == expected
        assert later == [n for n in expected if n > 3]
        await events.stop()

    asyncio.run(check())


async def test_threads_at_once_get_one_total_order(events: EventLog, store: MemoryEventStore) -> None:
    log = events.open(make_turn(), 1)

    def work(name: int) -> None:
        for i in range(200):
            log.append("output", output(f"{name}:{i}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await log.flush()
    texts = [pb.TurnEvent.FromString(event.data).output.text for event in store.rows["t1"]]
    for name in range(5):
        assert [text for text in texts if text.startswith(f"{name}:")] == [f"{name}:{i}" for i in range(200)]
    assert len(store.writes) < 200


async def test_nothing_is_delivered_before_it_is_durable(events: EventLog, store: MemoryEventStore) -> None:
    log = events.open(make_turn(), 1)
    store.open.clear()
    log.append("output", output("x"))
    watching = asyncio.create_task(watched(events))
    flushing = asyncio.create_task(log.flush())
    done, _ = await asyncio.wait([watching, flushing], timeout=0.1)
    assert not done
    assert log.tail(0, 10) == []
    store.open.set()
    await flushing
    await end(events, log, store)
    assert await watching == [1, 2]


async def test_detail_is_dropped_under_pressure_and_counted_once(make_log: MakeLog, store: MemoryEventStore) -> None:
    events = make_log(LogLimits(pending_events=10))
    log = events.open(make_turn(), 1)
    store.open.clear()
    for _ in range(25):
        log.append("output", output("x"))
    log.append("child_completed", pb.ChildCompleted(child_id="c", status="completed"))
    log.append("output", output("x"))
    store.open.set()
    await log.flush()
    log.append("output", output("room again"))
    await end(events, log, store)
    found = [pb.TurnEvent.FromString(event.data) for event in store.rows["t1"]]
    kinds = [event.WhichOneof("payload") for event in found]
    assert kinds == ["output"] * 10 + ["child_completed", "output", "warning", "turn_completed"]
    assert found[-2].warning.code == "events_dropped"
    assert "16 detail events" in found[-2].warning.message


async def test_pressure_is_counted_in_bytes_too(make_log: MakeLog, store: MemoryEventStore) -> None:
    events = make_log(LogLimits(pending_bytes=1_000))
    log = events.open(make_turn(), 1)
    store.open.clear()
    for _ in range(5):
        log.append("output", output("x" * 600))
    assert len(log.pending(100).events) == 2
    store.open.set()


async def test_a_slow_watcher_reads_from_the_database(events: EventLog, store: MemoryEventStore) -> None:
    log = events.open(make_turn(), 1)
    count = 3 * LogLimits().tail_events
    for _ in range(count):
        log.append("output", output("x"))
    await log.flush()
    assert log.tail(0, 10) is None
    recent = log.tail(count - LogLimits().tail_events, 10_000)
    assert recent is not None
    assert len(recent) == LogLimits().tail_events
    watching = asyncio.create_task(watched(events))
    await end(events, log, store)
    assert await watching == list(range(1, count + 2))
    assert store.reads > 0


async def test_the_tail_is_bounded_in_bytes(events: EventLog) -> None:
    log = events.open(make_turn(), 1)
    for _ in range(100):
        log.append("output", output("x" * 16_000))
    await log.flush()
    tail = log.tail(99, 10)
    assert tail is not None
    assert log.tail(100 - LogLimits().tail_bytes // 16_000 - 2, 10) is None


async def test_a_watcher_that_keeps_up_needs_no_database(events: EventLog, store: MemoryEventStore) -> None:
    log = events.open(make_turn(), 1)
    stream = events.watch(make_turn(), 0)
    for sequence in range(1, 20):
        log.append("output", output("x"))
        assert [event.sequence for event in await anext(stream)] == [sequence]
    assert store.reads == 0
    await stream.aclose()


async def test_a_lost_turn_takes_nothing_and_its_watchers_go_on(events: EventLog, store: MemoryEventStore) -> None:
    log = events.open(make_turn(), 1)
    log.append("output", output("mine"))
    await log.flush()
    watching = asyncio.create_task(watched(events))
    store.refused.add("t1")
    log.append("output", output("too late"))
    await log.flush()
    assert log.lost
    log.append("output", output("dropped"))
    assert log.pending(10).events == []
    store.insert("t1", [make_event("s/t", 2, NOW, "turn_failed", ENDED)])
    store.ended.add("t1")
    assert await watching == [1, 2]


async def test_a_turn_of_another_replica_is_polled(events: EventLog, store: MemoryEventStore) -> None:
    store.insert("t1", [make_event("s/t", 1, NOW, "output", output("x"))])
    watching = asyncio.create_task(watched(events))
    done, _ = await asyncio.wait([watching], timeout=0.05)
    assert not done
    store.insert("t1", [make_event("s/t", 2, NOW, "turn_completed", ENDED)])
    assert await watching == [1, 2]


async def test_snapshots_and_ended_turns_end_at_what_is_stored(events: EventLog, store: MemoryEventStore) -> None:
    assert await watched(events, ended=True) == []
    store.insert("t1", [make_event("s/t", n, NOW, "output", output("x")) for n in range(1, 301)])
    assert await watched(events, 298, snapshot=True) == [299, 300]
    assert await watched(events, 300, snapshot=True) == []
    assert await watched(events, ended=True) == list(range(1, 301))


async def test_batches_are_bounded_in_bytes(events: EventLog, store: MemoryEventStore) -> None:
    big = pb.Answer(text="x" * 3_000_000)
    rows = [make_event("s/t", n, NOW, "output", output("x" * 16_000)) for n in range(1, 101)]
    store.insert("t1", [*rows, make_event("s/t", 101, NOW, "answer", big)])
    turn = make_turn(state=TurnState.COMPLETED)
    sizes = [
        (len(batch), sum(map(len, map(pb.TurnEvent.SerializeToString, batch)))) async for batch in events.watch(turn, 0)
    ]
    assert [count for count, _ in sizes][-1] == 1
    assert all(size <= 1_048_576 for _, size in sizes[:-1])
    assert sum(count for count, _ in sizes) == 101


async def test_a_close_that_fails_opens_the_log_again(events: EventLog, store: MemoryEventStore) -> None:
    log = events.open(make_turn(), 1)
    store.open.clear()
    log.append("output", output("x"))
    with pytest.raises(TimeoutError):
        await log.close(0.05)
    store.open.set()
    log.append("output", output("y"))
    await log.flush()
    assert len(store.rows["t1"]) == 2


async def test_what_is_pending_at_the_end_is_written(store: MemoryEventStore) -> None:
    events = EventLog(store, SystemClock())
    events.start()
    log = events.open(make_turn(), 1)
    for _ in range(3):
        log.append("output", output("x"))
    await events.stop()
    assert len(store.rows["t1"]) == 3
    log.append("output", output("after the end"))


@pytest.mark.parametrize(("kind", "payload"), [("unheard_of", ENDED), ("output", ENDED)])
def test_only_events_of_the_contract(kind: str, payload: pb.TurnEnded) -> None:
    with pytest.raises(ValueError, match="payload"):
        make_event("s/t", 1, NOW, kind, payload)


def test_an_empty_payload_is_still_an_event() -> None:
    stored: StoredEvent = make_event("s/t", 1, NOW, "turn_completed", ENDED)
    assert pb.TurnEvent.FromString(stored.data).WhichOneof("payload") == "turn_completed"
