"""The documented answers are the answers: every model has the fields that a message becomes, in the same forms."""

from __future__ import annotations

from typing import Any

import pytest
from fleet.session.v1 import attachment_service_pb2, session_pb2, session_service_pb2, turn_event_pb2, turn_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from gateway.documents.attachment import Attachment, AttachmentList
from gateway.documents.document import Document
from gateway.documents.event import EVENTS, PAYLOADS
from gateway.documents.session import Session, SessionList
from gateway.documents.turn import Turn, TurnList
from services.common.event_json import event_json, event_type
from services.common.proto_json import to_json

PAIRS: list[tuple[type[Document], type[Message]]] = [
    (Session, session_pb2.Session),
    (SessionList, session_service_pb2.ListSessionsResponse),
    (Turn, turn_pb2.Turn),
    (TurnList, session_service_pb2.ListTurnsResponse),
    (Attachment, attachment_service_pb2.Attachment),
    (AttachmentList, attachment_service_pb2.ListAttachmentsResponse),
]


@pytest.mark.parametrize(("model", "message"), PAIRS, ids=lambda each: each.__name__)
def test_models_have_the_fields_of_their_messages(model: type[Document], message: type[Message]) -> None:
    assert set(model.model_fields) == set(to_json(message()))


def test_every_event_of_the_contract_is_documented() -> None:
    fields = turn_event_pb2.TurnEvent.DESCRIPTOR.oneofs_by_name["payload"].fields
    assert {field.name.replace("_", ".", 1) for field in fields} == set(EVENTS)


def _filled(descriptor: Descriptor, message: Any) -> Any:
    """`message` with every field set, messages inside included."""
    for field in descriptor.fields:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, field.name)["key"] = "value"
        elif field.message_type is not None and field.message_type.full_name == "google.protobuf.Struct":
            getattr(message, field.name).update({"answer": "x", "count": 1, "more": [None]})
        elif field.message_type is not None:
            inside = getattr(message, field.name)
            _filled(field.message_type, inside.add() if field.is_repeated else inside)
        elif field.is_repeated:
            getattr(message, field.name).append(_scalar(field))
        else:
            setattr(message, field.name, _scalar(field))
    return message


def _scalar(field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        return 2
    if field.type == FieldDescriptor.TYPE_STRING:
        return "text"
    return field.type == FieldDescriptor.TYPE_BOOL or 7


@pytest.mark.parametrize(("model", "message"), PAIRS, ids=lambda each: each.__name__)
def test_filled_messages_are_valid_documents(model: type[Document], message: type[Message]) -> None:
    model.model_validate(to_json(_filled(message.DESCRIPTOR, message())))


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("filled", [True, False])
def test_events_are_valid_documents(kind: str, filled: bool) -> None:
    event = turn_event_pb2.TurnEvent(turn="sessions/a/turns/b", sequence=1)
    event.time.GetCurrentTime()
    payload = getattr(event, kind.replace(".", "_"))
    payload.SetInParent()
    if filled:
        _filled(payload.DESCRIPTOR, payload)
    assert event_type(event) == kind
    EVENTS[kind].model_validate(event_json(event))


@pytest.mark.parametrize("model", [*(pair[0] for pair in PAIRS), *PAYLOADS.values()])
def test_fields_are_always_present(model: type[Document]) -> None:
    assert all(field.is_required() for field in model.model_fields.values())
