"""Reads a model's reply: the marked sections of DSPy's chat format, or one JSON object with the same fields."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

_HEADER = re.compile(r"^[ \t]*\[\[ ## (\w+) ## \]\][ \t]*\n?", re.MULTILINE)
_JSON_FENCE = re.compile(r"^```(?:json)?[ \t]*\n(.*?)\n?```$", re.DOTALL | re.IGNORECASE)
_THOUGHTS = re.compile(r"\A\s*<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_END = "completed"


def sections(text: str, names: Collection[str], whole: Collection[str] = ()) -> dict[str, str]:
    """Return the text under each marker of `names`, from its first occurrence on.

    A section ends at the next such marker or at the end marker; those in `whole` go on over end markers, since a
    program may hold lines that look like one. Markers of other names are text.

    Args:
        text: the reply.
        names: the fields that are looked for.
        whole: the fields whose text is cut by other means.
    """
    firsts: dict[str, re.Match[str]] = {}
    for match in _HEADER.finditer(text):
        if match[1] in names:
            firsts.setdefault(match[1], match)
    starts = sorted(match.start() for match in firsts.values())
    found = {}
    for name, match in firsts.items():
        end = next((start for start in starts if start > match.start()), len(text))
        body = text[match.end() : end]
        found[name] = body if name in whole else _until_end_marker(body)
    return found


def without_thoughts(text: str) -> str:
    """Return `text` without the block of thoughts that some models put before their reply."""
    return _THOUGHTS.sub("", text, count=1)


def json_object(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object that the whole of `text` is, fenced or not, or None."""
    stripped = text.strip()
    fenced = _JSON_FENCE.match(stripped)
    candidate = fenced[1].strip() if fenced else stripped
    if not candidate.startswith("{"):
        return None
    try:
        # Models put line breaks into JSON strings as they are.
        value = json.loads(candidate, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _until_end_marker(body: str) -> str:
    for match in _HEADER.finditer(body):
        if match[1] == _END:
            return body[: match.start()].strip()
    return body.strip()
