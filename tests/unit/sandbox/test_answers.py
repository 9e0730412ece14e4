"""What the worker says is checked: hostile bytes are a protocol error, never a crash."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.sandbox.agent import frames
from services.sandbox.agent.answers import Answer, ProtocolError, WorkerCall
from services.sandbox.agent.frames import Frame

_anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.dictionaries(st.text(max_size=5), st.text(max_size=5))
)


@settings(max_examples=500)
@given(
    st.dictionaries(
        st.sampled_from(
            ["status", "repr_bytes", "execution_id", "error", "interrupted", "call_id", "name", "invocation"]
        ),
        _anything | st.sampled_from(["ok", "final", "error", "syntax_error"]),
    ),
    st.binary(max_size=20),
)
def test_any_control_part(control: dict[str, object], body: bytes) -> None:
    for check in (Answer, WorkerCall):
        try:
            check(Frame(frames.DONE, control, body))
        except ProtocolError:
            continue


def test_a_result_that_is_well_formed() -> None:
    answer = Answer(Frame(frames.DONE, {"status": "final", "repr_bytes": 2, "execution_id": "e"}, b'42{"a":1}'))
    assert (answer.status, answer.result_repr, answer.final) == ("final", b"42", b'{"a":1}')


@pytest.mark.parametrize("final", [b"", b"[]", b"{", b'{"a":1', b'{"a": NaN}'])
def test_final_outputs_must_be_a_json_object(final: bytes) -> None:
    with pytest.raises(ProtocolError):
        Answer(Frame(frames.DONE, {"status": "final", "repr_bytes": 0}, final))


def test_long_texts_are_cut() -> None:
    error = {"type": "E", "message": "m" * 100_000, "traceback": "", "line": -5}
    answer = Answer(Frame(frames.DONE, {"status": "error", "repr_bytes": 0, "error": error}))
    assert answer.error is not None
    assert len(answer.error["message"]) == 16_000
    assert answer.error["line"] == 0
