"""Facts of an invocation as events: complete, bounded and storable."""

from __future__ import annotations

import dataclasses
import typing

from fleet.session.v1 import turn_event_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from services.rlm import events
from services.rlm.budget.gate import Dimension
from services.session.events.bounds import TEXT_BYTES
from services.session.running.turn_events import cut_middle, shown, to_payload

HARD_TEXT = st.text(st.characters(codec=None, categories=None), max_size=300)
_VALUES = {
    "int": st.integers(0, 1 << 40),
    "str": HARD_TEXT,
    "bool": st.booleans(),
    "Stream": st.sampled_from(["stdout", "stderr"]),
    "Dimension": st.sampled_from(list(Dimension)),
}
_SMALL = st.integers(0, 1 << 31)


def any_event() -> st.SearchStrategy[events.RlmEvent]:
    """Every kind of event with any text in it, lone surrogates included."""

    def of(kind: type) -> st.SearchStrategy[events.RlmEvent]:
        fields = {
            f.name: _SMALL if f.name in ("iteration", "of") else _VALUES[str(f.type)] for f in dataclasses.fields(kind)
        }
        fields |= {name: st.just("a" * 64) for name in fields if name in ("code_sha256", "call_id", "role")}
        return st.builds(kind, **fields)

    return st.one_of([of(kind) for kind in typing.get_args(events.RlmEvent)])


@given(any_event())
def test_every_event_fits_its_payload(event: events.RlmEvent) -> None:
    kind, message = to_payload(event)
    turn_event = pb.TurnEvent()
    getattr(turn_event, kind).CopyFrom(message)
    assert pb.TurnEvent.FromString(turn_event.SerializeToString()).WhichOneof("payload") == kind


def test_long_code_is_cut_with_its_full_length() -> None:
    kind, message = to_payload(events.Code(3, "é" * 20_000))
    assert isinstance(message, pb.StepText)
    assert (kind, message.iteration, message.truncated, message.full_length) == ("code", 3, True, 20_000)
    assert len(message.text.encode()) <= TEXT_BYTES


def test_final_output_keeps_head_and_tail() -> None:
    _, message = to_payload(events.OutputFinal(1, "head" + "x" * 40_000 + "ValueError: tail", False, 40_020, True))
    assert isinstance(message, pb.StepOutput)
    assert message.text.startswith("head")
    assert message.text.endswith("ValueError: tail")
    assert message.truncated
    assert message.error
    assert len(message.text.encode()) <= TEXT_BYTES


@given(HARD_TEXT, st.integers(20, 400))
def test_cuts_are_utf8_within_their_limit(text: str, limit: int) -> None:
    assert len(shown(text, limit).encode()) <= limit
    assert len(cut_middle(text, limit).encode()) <= limit
