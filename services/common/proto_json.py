"""Protobuf messages as the JSON that REST and the command line speak.

Names stay snake_case; every field is present; 64-bit integers are numbers; times are RFC 3339; enums lose their prefix
and are lower case, except states and phases, which keep their upper case; budget lines become one object keyed by
dimension; a resource with a `name` also carries its short `id`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

Json = Any
"""A JSON-compatible value."""

_UPPER_CASE = {"SessionState", "TurnState"}
_WELL_KNOWN = {"google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.Struct"}
_LINE = "fleet.common.v1.BudgetLine"


def to_json(message: Message) -> dict[str, Json]:
    """The JSON object of `message`."""
    return {name: read(message) for name, read in _readers(message.DESCRIPTOR)}


def enum_text(enum: EnumDescriptor, number: int) -> str | None:
    """An enum value without its prefix; None for the unspecified one and for numbers that this release doesn't know."""
    value = enum.values_by_number.get(number)
    if value is None or number == 0:
        return None
    text: str = value.name.removeprefix(_prefix(enum.name))
    return text if enum.name in _UPPER_CASE else text.lower()


@cache
def _prefix(name: str) -> str:
    spaced = "".join(f"_{character}" if character.isupper() else character for character in name)
    return spaced.lstrip("_").upper() + "_"


@cache
def _readers(descriptor: Descriptor) -> tuple[tuple[str, Callable[[Message], Json]], ...]:
    readers = [(field.name, _reader(field)) for field in descriptor.fields]
    if descriptor.fields_by_name.get("name") is not None and "id" not in descriptor.fields_by_name:
        readers.insert(0, ("id", lambda message: str(message.name).rpartition("/")[2]))  # type: ignore[attr-defined]
    return tuple(readers)


def _reader(field: FieldDescriptor) -> Callable[[Message], Json]:
    name = field.name
    if _is_map(field):
        return lambda message: dict(getattr(message, name))
    value = _value(field)
    if field.is_repeated:
        if field.message_type is not None and field.message_type.full_name == _LINE:
            return lambda message: _lines(getattr(message, name))
        return lambda message: [value(item) for item in getattr(message, name)]
    if field.has_presence:
        return lambda message: value(getattr(message, name)) if message.HasField(name) else None
    return lambda message: value(getattr(message, name))


def _value(field: FieldDescriptor) -> Callable[[Any], Json]:
    if field.message_type is not None:
        return MessageToDict if field.message_type.full_name in _WELL_KNOWN else to_json
    if field.enum_type is not None:
        enum = field.enum_type
        return lambda number: enum_text(enum, number)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda data: base64.b64encode(data).decode("ascii")
    return lambda scalar: scalar


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _lines(lines: Any) -> dict[str, Json]:
    return {str(item.pop("dimension")): item for item in map(to_json, lines)}
