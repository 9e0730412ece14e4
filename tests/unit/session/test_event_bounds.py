"""Long texts of events."""

from __future__ import annotations

from fleet.session.v1 import turn_event_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from services.session.events.bounds import TEXT_BYTES, bound, cut


@given(st.text(max_size=200), st.integers(0, 300))
def test_cut_is_the_longest_prefix_of_whole_characters(text: str, limit: int) -> None:
    shorter = cut(text, limit)
    assert text.startswith(shorter)
    assert len(shorter.encode()) <= limit
    following = text[len(shorter) : len(shorter) + 1]
    assert not following or len((shorter + following).encode()) > limit


def test_step_texts_keep_their_length() -> None:
    event = pb.TurnEvent(code=pb.StepText(iteration=1, text="ä" * 20_000))
    bound(event)
    assert event.code.text == "ä" * (TEXT_BYTES // 2)
    assert (event.code.truncated, event.code.full_length) == (True, 20_000)
    short = pb.TurnEvent(reasoning=pb.StepText(iteration=1, text="ok"))
    bound(short)
    assert (short.reasoning.text, short.reasoning.truncated, short.reasoning.full_length) == ("ok", False, 2)


def test_output_keeps_what_its_maker_says() -> None:
    made = pb.StepOutput(iteration=1, text="head", final=True, truncated=True, full_length=9_999)
    event = pb.TurnEvent(output=made)
    bound(event)
    assert event.output == made
    long = pb.TurnEvent(output=pb.StepOutput(iteration=1, text="x" * 20_000, final=True))
    bound(long)
    assert (len(long.output.text), long.output.truncated, long.output.full_length) == (TEXT_BYTES, True, 20_000)


def test_other_texts() -> None:
    outcome = pb.ChildCompleted(evidence=["e" * 600] * 40, gaps=["g"], error="x" * 5_000)
    event = pb.TurnEvent(child_completed=outcome)
    bound(event)
    assert [len(item) for item in event.child_completed.evidence] == [512] * 32
    assert list(event.child_completed.gaps) == ["g"]
    assert len(event.child_completed.error) == 1_024
    called = pb.TurnEvent(tool_called=pb.ToolCalled(input="x" * 5_000))
    bound(called)
    assert len(called.tool_called.input) == 2_048
    started = pb.TurnEvent(child_started=pb.ChildStarted(task="t" * 500))
    bound(started)
    assert len(started.child_started.task) == 200


def test_an_answer_is_whole() -> None:
    event = pb.TurnEvent(answer=pb.Answer(text="x" * 100_000))
    bound(event)
    assert len(event.answer.text) == 100_000
