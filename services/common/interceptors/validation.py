"""The innermost layer: reads requests and checks them against the rules in their contract."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import protovalidate
from google.protobuf.message import DecodeError, Message

from services.common.errors import FieldViolation, FleetError
from services.common.interceptors.chain import Behaviour, Context, Deserializer, Method

_VALIDATOR = protovalidate.Validator()


class ValidationLayer:
    """Refuses a request that can't be read or breaks a rule, naming every broken field."""

    def wrap(self, behaviour: Behaviour, method: Method) -> Behaviour:
        """A behaviour that gets valid messages only; in a stream each is checked as it is read."""

        async def call(request: Any, context: Context) -> Any:
            if method.request_streaming:
                return await behaviour(_ValidMessages(request, method.deserialize), context)
            return await behaviour(_read(request, method.deserialize), context)

        return call


def check(message: Message) -> None:
    """Return when `message` keeps the rules of its contract.

    Raises:
        FleetError: INVALID_ARGUMENT with one violation a broken rule.
    """
    found = _VALIDATOR.collect_violations(message)
    if not found:
        return
    violations = [FieldViolation(_path(v.proto), v.proto.message or v.proto.rule_id) for v in found]
    first = violations[0]
    summary = f"{first.field}: {first.description}" if first.field else first.description
    raise FleetError("INVALID_ARGUMENT", f"The request is invalid: {summary}.", violations=violations)


class _ValidMessages:
    """The messages of a request stream, each read and checked when it is asked for."""

    def __init__(self, source: AsyncIterable[bytes], deserialize: Deserializer) -> None:
        self._source = aiter(source)
        self._deserialize = deserialize

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        return _read(await anext(self._source), self._deserialize)


def _read(data: bytes, deserialize: Deserializer) -> Any:
    try:
        message = deserialize(data)
    except DecodeError as error:
        raise FleetError("INVALID_ARGUMENT", "The request is not a valid message.") from error
    if isinstance(message, Message):
        check(message)
    return message


def _path(violation: Any) -> str:
    """The path of the broken field, such as `labels["a"]` or `attachments[0]`; empty for a whole message's rule."""
    parts: list[str] = []
    for element in violation.field.elements if violation.field is not None else ():
        subscript = element.subscript
        suffix = ""
        if subscript is not None:
            key = subscript.value
            suffix = f'["{key}"]' if isinstance(key, str) else f"[{str(key).lower()}]"
        parts.append(f"{element.field_name}{suffix}")
    return ".".join(parts)
