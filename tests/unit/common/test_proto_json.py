from __future__ import annotations

from fleet.common.v1.budget_pb2 import BUDGET_DIMENSION_LLM_CALLS
from fleet.session.v1.session_pb2 import SESSION_STATE_ARCHIVED, Session
from fleet.session.v1.turn_event_pb2 import TurnEvent
from fleet.session.v1.turn_pb2 import TERMINATION_SUBMIT, TURN_STATE_COMPLETED, TURN_STATE_RUNNING, Turn

from services.common.event_json import TERMINAL, event_json, event_type
from services.common.proto_json import to_json


def test_turn_has_every_field_in_the_documented_form() -> None:
    turn = Turn(
        name="sessions/a/turns/b",
        state=TURN_STATE_COMPLETED,
        termination=TERMINATION_SUBMIT,
        attachments=["attachments/c"],
    )
    turn.outputs.update({"answer": "yes", "metrics": [1, 2.5]})
    turn.budget.add(dimension=BUDGET_DIMENSION_LLM_CALLS, used=3, limit=2**40)
    turn.create_time.FromJsonString("2026-01-02T03:04:05.678Z")
    found = to_json(turn)
    assert found["id"] == "b"
    assert found["state"] == "COMPLETED"
    assert found["termination"] == "submit"
    assert found["outputs"] == {"answer": "yes", "metrics": [1.0, 2.5]}
    assert found["budget"] == {"llm_calls": {"used": 3, "limit": 2**40}}
    assert found["create_time"] == "2026-01-02T03:04:05.678Z"
    assert found["error"] is None
    assert found["end_time"] is None
    assert found["attachments"] == ["attachments/c"]


def test_session_labels_and_state() -> None:
    session = Session(name="sessions/a", state=SESSION_STATE_ARCHIVED, labels={"team": "x"}, checkpoint_version=7)
    found = to_json(session)
    assert (found["id"], found["state"], found["labels"], found["checkpoint_version"]) == (
        "a",
        "ARCHIVED",
        {"team": "x"},
        7,
    )


def test_event_has_its_envelope_and_payload_fields() -> None:
    event = TurnEvent(turn="sessions/a/turns/b", sequence=4)
    event.turn_phase.phase = TURN_STATE_RUNNING
    event.turn_phase.detail = "step"
    found = event_json(event)
    assert found["type"] == "turn.phase"
    assert (found["turn"], found["sequence"], found["phase"], found["detail"]) == (
        "sessions/a/turns/b",
        4,
        "RUNNING",
        "step",
    )


def test_terminal_types_are_the_ends_of_the_contract() -> None:
    ends = {
        name for name in TurnEvent.DESCRIPTOR.oneofs_by_name["payload"].fields if name.message_type.name == "TurnEnded"
    }
    assert {field.name.replace("_", ".", 1) for field in ends} == TERMINAL


def test_payload_of_a_later_release_is_unknown() -> None:
    assert event_type(TurnEvent(sequence=1)) == "unknown"
