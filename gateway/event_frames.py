"""Turn events as server-sent event frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import orjson
from fleet.session.v1.turn_event_pb2 import TurnEvent

from services.common.event_json import event_json

RETRY_MS = 500
"""When a client whose stream was cut may come back."""


class FrameEncoder(Protocol):
    """Writes one stream of server-sent events."""

    headers: Mapping[str, str]
    """Headers of the stream."""

    def events(self, events: Iterable[TurnEvent]) -> bytes:
        """What the next events become."""
        ...

    def end(self) -> bytes:
        """What follows the Turn's last event."""
        ...

    def cut(self) -> bytes:
        """What ends a stream before its Turn has ended."""
        ...


class EventFrames:
    """One frame an event: its type, its sequence as the id, and its JSON."""

    headers: Mapping[str, str] = MappingProxyType({})

    def events(self, events: Iterable[TurnEvent]) -> bytes:
        """The frames of `events`, in one piece of bytes."""
        return b"".join(map(_frame, events))

    def end(self) -> bytes:
        """Nothing: the last event says that it is the last."""
        return b""

    def cut(self) -> bytes:
        """Ask the client to come back."""
        return f"retry: {RETRY_MS}\n\n".encode()


def frame_data(document: Any) -> bytes:
    """The JSON of `document` as the text of one `data` field.

    Characters that some clients take for line ends, though the standard doesn't, are escaped.
    """
    data = orjson.dumps(document)
    if data.isascii():
        return data
    for character, escaped in _LINE_ENDS:
        data = data.replace(character, escaped)
    return data


_LINE_ENDS = tuple((chr(code).encode(), b"\\u%04x" % code) for code in (0x85, 0x2028, 0x2029))


def _frame(event: TurnEvent) -> bytes:
    document = event_json(event)
    return b"event: %b\nid: %d\ndata: %b\n\n" % (document["type"].encode(), event.sequence, frame_data(document))
