"""What the model sees of an execution."""

from __future__ import annotations

from fleet.sandbox.v1 import attach_pb2
from hypothesis import given
from hypothesis import strategies as st

from services.rlm.interpreter.observation import STATE_LOST, clip, observe


@given(st.text(max_size=500), st.integers(60, 200))
def test_clipping_keeps_head_and_tail_within_the_limit(text: str, limit: int) -> None:
    clipped = clip(text, limit)
    assert len(clipped) <= limit
    if len(text) <= limit:
        assert clipped == text
    else:
        assert f"{len(text):,} characters" in clipped


def test_a_value_is_shown_when_nothing_was_printed() -> None:
    ok = attach_pb2.EXECUTION_STATUS_OK
    assert observe(attach_pb2.Done(status=ok, result_repr="False"), 100).text == "False"
    assert observe(attach_pb2.Done(status=ok, output="hi\n", result_repr="1"), 100).text == "hi\n"
    assert observe(attach_pb2.Done(status=ok), 100).text == ""


def test_a_cut_output_states_its_whole_length() -> None:
    done = attach_pb2.Done(
        status=attach_pb2.EXECUTION_STATUS_OK, output="a" * 300, output_bytes=100_000_000, truncated=True
    )
    assert "100,000,000 bytes" in observe(done, 200).text


def test_failures_say_what_happened_and_what_is_gone() -> None:
    error = attach_pb2.ExecutionError(type="KeyboardInterrupt", message="", traceback="line 3\nKeyboardInterrupt")
    late = attach_pb2.Done(status=attach_pb2.EXECUTION_STATUS_TIMED_OUT, error=error, output="so far", state_lost=True)
    seen = observe(late, 1000)
    assert seen.error
    assert not seen.syntax
    for part in ("time limit", "line 3", STATE_LOST, "Output before that:\nso far"):
        assert part in seen.text
    died = observe(attach_pb2.Done(status=attach_pb2.EXECUTION_STATUS_DIED), 1000)
    assert died.text == "The Python process died."
    syntax = observe(attach_pb2.Done(status=attach_pb2.EXECUTION_STATUS_SYNTAX_ERROR), 1000)
    assert syntax.syntax
