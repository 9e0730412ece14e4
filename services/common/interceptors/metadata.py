"""Reads a call's metadata."""

from __future__ import annotations

from services.common.interceptors.chain import Context


def text_value(context: Context, key: str) -> str:
    """The first text value of `key` in the call's metadata, or an empty string."""
    for name, value in context.invocation_metadata() or ():
        if name == key:
            return value if isinstance(value, str) else value.decode("ascii", "replace")
    return ""
