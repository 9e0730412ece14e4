"""The OpenAPI document: what routes say of themselves, completed by the models of answers, events and problems."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gateway import problems
from gateway.documents.attachment import Attachment, AttachmentList
from gateway.documents.event import EVENTS
from gateway.documents.health import Health
from gateway.documents.problem import Problem
from gateway.documents.session import Session, SessionList
from gateway.documents.turn import Turn, TurnList

DESCRIPTION = (
    "Sessions and Turns of a recursive language-model backend. A Turn's events stream as server-sent events and can be "
    "resumed with `Last-Event-ID`. Errors are `application/problem+json`."
)

_REFS = "#/components/schemas/"
_MODELS: tuple[type[BaseModel], ...] = (
    Attachment,
    AttachmentList,
    Health,
    Problem,
    Session,
    SessionList,
    Turn,
    TurnList,
    *EVENTS.values(),
)
_EVERYWHERE = {
    403: "The request is of another origin.",
    422: "The request breaks a rule; `errors` names the fields.",
    500: "The server failed.",
    503: "A service can't be reached; try again after `Retry-After` seconds.",
    504: "A service didn't answer in time.",
}

Responses = dict[int | str, dict[str, Any]]


def answer(status: int, description: str, model: str | None, media_type: str = "application/json") -> Responses:
    """Documents an answer: a schema by its name, or no body."""
    if model is None:
        return {status: {"description": description}}
    return {status: {"description": description, "content": {media_type: {"schema": {"$ref": _REFS + model}}}}}


def refusals(**reasons: str) -> Responses:
    """Documents statuses of problem documents, such as `refusals(s404="there is no such Turn")`, and the usual ones."""
    own = {int(key.removeprefix("s")): text for key, text in reasons.items()}
    every: Responses = {}
    for status, text in {**_EVERYWHERE, **own}.items():
        every |= answer(status, text, "Problem", problems.MEDIA_TYPE)
    return every


def install(app: FastAPI) -> None:
    """Make `app` serve the completed document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign] # FastAPI's documented way to extend it


def _document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    _, models = models_json_schema([(model, "serialization") for model in _MODELS], ref_template=_REFS + "{model}")
    schemas |= models["$defs"]
    schemas["Event"] = _event()
    schemas["EventFrame"] = _event_frame()
    schemas["EventList"] = {"type": "array", "items": {"$ref": f"{_REFS}Event"}}
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return made


def _event() -> dict[str, Any]:
    names = {kind: _REFS + model.__name__ for kind, model in EVENTS.items()}
    return {
        "title": "Event",
        "description": "One numbered fact of a Turn. Ignore types that you don't know.",
        "oneOf": [{"$ref": name} for name in names.values()],
        "discriminator": {"propertyName": "type", "mapping": names},
    }


def _event_frame() -> dict[str, Any]:
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": {"$ref": f"{_REFS}Event"}}
    return {
        "title": "EventFrame",
        "description": "One frame of a stream. With `format=ui-message` frames have data only.",
        "type": "object",
        "required": ["data"],
        "properties": {
            "event": {"type": "string", "description": "The type of the event."},
            "id": {"type": "string", "description": "Its sequence, for `Last-Event-ID`."},
            "data": data,
        },
    }
