"""Arguments and failures of host tools: model code may pass anything."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue


def failure(error: str, message: str) -> JsonValue:
    """The result of an expected failure.

    Args:
        error: a name of `fleet.common.v1.ErrorReason` without its prefix.
        message: what is wrong and what is allowed.
    """
    return {"ok": False, "error": error, "message": message}


def whole_number(value: object, least: int, most: int | None) -> int | None:
    """`value` when it is an integer within the bounds, else None; a bool is no integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if value >= least and (most is None or value <= most) else None


def texts(value: object) -> list[str] | None:
    """`value` as a list of texts, else None; a text alone is no list."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        return None
    return list(value) if all(isinstance(item, str) for item in value) else None
