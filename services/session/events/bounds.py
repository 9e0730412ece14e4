"""Keeps events small: long texts are cut, with the full length beside them."""

from __future__ import annotations

from fleet.session.v1 import turn_event_pb2 as pb

TEXT_BYTES = 16 * 1024
"""Longest text of an event, in bytes of UTF-8; an answer is exempt."""

TOOL_BYTES = 2 * 1024
"""Longest input or output of a tool in an event, in bytes of UTF-8."""

TASK_CHARS = 200
"""Longest task of a child in an event, in characters."""

LIST_ITEMS = 32
"""Most items of evidence or gaps of a child in an event."""

ITEM_CHARS = 512
"""Longest item of evidence or gaps, in characters."""

_STEP_TEXTS = ("reasoning", "code")
_ERROR_BYTES = 1024


def cut(text: str, limit: int) -> str:
    """The longest prefix of `text` of at most `limit` bytes of UTF-8 that ends between characters."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode(errors="ignore")


def bound(event: pb.TurnEvent) -> None:
    """Cut the texts of `event` in place; flags and lengths that its maker has set already are kept."""
    kind = event.WhichOneof("payload")
    if kind in _STEP_TEXTS:
        _bound_step(getattr(event, kind))
    elif kind == "output":
        _bound_output(event.output)
    elif kind == "tool_called":
        event.tool_called.input = cut(event.tool_called.input, TOOL_BYTES)
    elif kind == "tool_completed":
        event.tool_completed.output = cut(event.tool_completed.output, TOOL_BYTES)
        event.tool_completed.error = cut(event.tool_completed.error, _ERROR_BYTES)
    elif kind == "lm_completed":
        event.lm_completed.error = cut(event.lm_completed.error, _ERROR_BYTES)
    elif kind == "child_started":
        event.child_started.task = event.child_started.task[:TASK_CHARS]
    elif kind == "child_completed":
        _bound_outcome(event.child_completed)
    elif kind == "warning":
        event.warning.message = cut(event.warning.message, _ERROR_BYTES)


def _bound_step(step: pb.StepText) -> None:
    length = len(step.text)
    shorter = cut(step.text, TEXT_BYTES)
    step.full_length = max(step.full_length, length)
    step.truncated = step.truncated or len(shorter) < length
    step.text = shorter


def _bound_output(output: pb.StepOutput) -> None:
    data = output.text.encode()
    if output.final:
        output.full_length = max(output.full_length, len(data))
    if len(data) > TEXT_BYTES:
        output.text = data[:TEXT_BYTES].decode(errors="ignore")
        output.truncated = True


def _bound_outcome(outcome: pb.ChildCompleted) -> None:
    for field in (outcome.evidence, outcome.gaps):
        kept = [item[:ITEM_CHARS] for item in field[:LIST_ITEMS]]
        del field[:]
        field.extend(kept)
    outcome.error = cut(outcome.error, _ERROR_BYTES)
