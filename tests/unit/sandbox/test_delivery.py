"""Outbox and inbox: whatever is lost or repeated on the way, each frame arrives once and in order."""

from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.agent import frames
from services.sandbox.agent.delivery import Inbox, Outbox
from services.sandbox.agent.frames import Frame


@given(st.lists(st.sampled_from(["send", "drop", "ack"]), max_size=60))
def test_a_channel_that_is_cut_loses_and_repeats_nothing(actions: list[str]) -> None:
    outbox, inbox = Outbox(), Inbox()
    wire: list[Frame] = []
    received: list[int] = []

    def deliver() -> None:
        for frame in wire:
            if inbox.take(frame.sequence) == "new":
                received.append(int.from_bytes(frame.body))
        wire.clear()

    sent = 0
    for action in actions:
        if action == "send":
            frame = Frame(frames.DONE, body=sent.to_bytes(4))
            outbox.add(frame)
            wire.append(frame)
            sent += 1
        elif action == "drop":
            # The cut loses what is on the way; attaching again repeats what wasn't seen, and sometimes more.
            wire[:] = list(outbox.after(max(inbox.taken - 1, 0)))
        else:
            deliver()
            outbox.acknowledge(inbox.taken)
    wire[:] = list(outbox.after(0))
    deliver()
    assert received == list(range(sent))


def test_only_output_is_dropped_when_nobody_acknowledges() -> None:
    outbox = Outbox(limit=10)
    assert outbox.add(Frame(frames.OUTPUT, body=bytes(10)))
    assert not outbox.add(Frame(frames.OUTPUT, body=b"x"))
    assert outbox.add(Frame(frames.DONE, body=b"x"))
    outbox.acknowledge(1)
    assert not outbox.full
    assert [frame.sequence for frame in outbox.after(0)] == [2]


def test_an_opening_may_overtake_what_is_missing() -> None:
    inbox = Inbox()
    assert inbox.take(1) == "new"
    assert inbox.take(4, ahead=True) == "new"
    assert inbox.take(5) == "gap"
    assert [inbox.take(number) for number in (2, 3)] == ["new", "new"]
    assert inbox.taken == 4
    assert inbox.take(4) == "repeated"
    assert inbox.take(5) == "new"


def test_sequence_zero_is_outside_the_order() -> None:
    inbox = Inbox()
    assert [inbox.take(0), inbox.take(0)] == ["new", "new"]
    assert inbox.taken == 0
