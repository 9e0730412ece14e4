"""JSON answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi.responses import Response
from google.protobuf.message import Message

from services.common.proto_json import to_json

MEDIA_TYPE = "application/json"


def reply(message: Message, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with the JSON of `message`."""
    return json_reply(to_json(message), status, headers)


def made(message: Message, collection: str, status: int = 201) -> Response:
    """An answer with the JSON of a resource that was made, and its path below `collection` as `Location`."""
    document = to_json(message)
    return json_reply(document, status, {"Location": f"{collection}/{document['id']}"})


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with `document`."""
    return Response(orjson.dumps(document), status, headers, MEDIA_TYPE)
