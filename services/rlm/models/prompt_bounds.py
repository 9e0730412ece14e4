"""Keeps what is sent to a model sendable and bounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dspy.primitives.repl_types import REPLHistory

from services.common.text import clean

CODE_CHARS = 20_000
"""Characters of one earlier program that a prompt repeats."""

REASONING_CHARS = 8_000
"""Characters of one earlier reasoning that a prompt repeats."""


def bounded(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prompt's inputs with over-long earlier programs and reasoning clipped; DSPy clips outputs only."""
    return {name: _clipped(value) if isinstance(value, REPLHistory) else value for name, value in inputs.items()}


def sendable(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return chat messages whose texts can be written as UTF-8."""
    return [
        {**message, "content": clean(message["content"])} if isinstance(message.get("content"), str) else message
        for message in messages
    ]


def _clipped(history: REPLHistory) -> REPLHistory:
    if all(len(entry.code) <= CODE_CHARS and len(entry.reasoning) <= REASONING_CHARS for entry in history.entries):
        return history
    entries = [
        entry.model_copy(
            update={"reasoning": _clip(entry.reasoning, REASONING_CHARS), "code": _clip(entry.code, CODE_CHARS)}
        )
        for entry in history.entries
    ]
    return history.model_copy(update={"entries": entries})


def _clip(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n\n... ({len(text) - 2 * half:,} characters omitted) ...\n\n{text[-half:]}"
