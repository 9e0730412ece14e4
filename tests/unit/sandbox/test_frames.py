"""The codec: any frames, cut anywhere, come out as they went in; anything else is refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.agent import frames, wire_json
from services.sandbox.agent.frames import Decoder, Frame, FrameError

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)
_frames = st.builds(
    Frame,
    st.sampled_from(sorted(frames.TYPES)),
    st.dictionaries(_texts, _json, max_size=3),
    st.binary(max_size=200),
    epoch=st.integers(0, 2**32 - 1),
    sequence=st.integers(0, 2**64 - 1),
    ack=st.integers(0, 2**64 - 1),
)


def _fields(frame: Frame) -> tuple[object, ...]:
    return frame.type, frame.control, frame.body, frame.epoch, frame.sequence, frame.ack


@given(st.lists(_frames, max_size=4), st.lists(st.integers(1, 50), max_size=30))
def test_frames_survive_any_cut(sent: list[Frame], cuts: list[int]) -> None:
    data = b"".join(map(frames.encode, sent))
    decoder, received = Decoder(), []
    for cut in [*cuts, len(data) + 1]:
        received += decoder.feed(data[:cut])
        data = data[cut:]
    assert [_fields(frame) for frame in received] == [_fields(frame) for frame in sent]


@given(st.binary(min_size=frames.HEADER_BYTES, max_size=100))
def test_other_bytes_are_refused(data: bytes) -> None:
    if data[:2] == b"\xf1\xee":
        data = b"\0\0" + data[2:]
    with pytest.raises(FrameError):
        Decoder().feed(data)


@pytest.mark.parametrize(("control", "body"), [(frames.MAX_CONTROL_BYTES + 1, 0), (0, frames.MAX_BODY_BYTES + 1)])
def test_announced_size_is_checked_before_anything_is_kept(control: int, body: int) -> None:
    header = struct.pack(">HBBIQQII", 0xF1EE, frames.PROTOCOL_VERSION, frames.PING, 0, 0, 0, control, body)
    with pytest.raises(FrameError, match="too large"):
        Decoder().feed(header)


def test_too_large_frames_are_not_sent() -> None:
    with pytest.raises(FrameError, match="too large"):
        frames.encode(Frame(frames.OUTPUT, body=bytes(frames.MAX_BODY_BYTES + 1)))


@pytest.mark.parametrize("control", [b"[]", b"{", b"NaN", b'{"a":1}x', b"\xff", b"[" * 50_000])
def test_control_must_be_one_json_object(control: bytes) -> None:
    header = struct.pack(">HBBIQQII", 0xF1EE, frames.PROTOCOL_VERSION, frames.PING, 0, 0, 0, len(control), 0)
    with pytest.raises(FrameError):
        Decoder().feed(header + control)


@given(_json)
def test_json_round_trip(value: object) -> None:
    assert wire_json.loads(wire_json.dumps(value)) == value


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), float("nan"), float("inf"), {(1, 2): 3}])
def test_values_without_json_form_are_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        wire_json.dumps(value)


def test_lone_surrogates_become_replacement_characters() -> None:
    assert wire_json.loads(wire_json.dumps(["a\ud800b"])) == ["a\ufffdb"]


def test_cycles_are_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="Circular"):
        wire_json.dumps(loop)
