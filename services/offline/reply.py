"""Replies in the field format of DSPy's ChatAdapter."""

from __future__ import annotations

from collections.abc import Mapping


def action_reply(reasoning: str, code: str) -> str:
    """The next program of an RLM with the reason for it."""
    return fields_reply({"reasoning": reasoning, "code": f"```python\n{code.strip()}\n```"})


def fields_reply(values: Mapping[str, str]) -> str:
    """Field markers with their values and the closing marker."""
    parts = [f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()]
    return "\n\n".join([*parts, "[[ ## completed ## ]]\n"])
