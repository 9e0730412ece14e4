"""What the model sees of an execution."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.sandbox.v1 import attach_pb2

NO_OUTPUT = "(no output - did you forget to print?)"
"""What native RLM records for a step that printed nothing."""

STATE_LOST = (
    "The Python process was replaced: variables, imports and functions of earlier steps are gone. "
    "The inputs are set again."
)
"""What the model is told when the globals are gone."""


@dataclass(frozen=True)
class Observation:
    """An execution's outcome in the model's words.

    Attributes:
        text: printed output, value or error, within the limit.
        error: whether the code failed.
        syntax: whether it failed because it is not Python.
    """

    text: str
    error: bool = False
    syntax: bool = False


def observe(done: attach_pb2.Done, max_chars: int) -> Observation:
    """Return what the model sees of an execution that did not end with SUBMIT."""
    printed = clip(done.output, max_chars, done.output_bytes if done.truncated else None)
    status = done.status
    if status == attach_pb2.EXECUTION_STATUS_OK:
        return Observation(printed or clip(done.result_repr, max_chars))
    if status == attach_pb2.EXECUTION_STATUS_SYNTAX_ERROR:
        return Observation(_failure(done), error=True, syntax=True)
    parts = [_failure(done)]
    if done.state_lost:
        parts.append(STATE_LOST)
    if printed:
        parts.append(f"Output before that:\n{printed}")
    return Observation(clip("\n".join(parts), max_chars), error=True)


def clip(text: str, max_chars: int, full_bytes: int | None = None) -> str:
    """Return head and tail of `text` within `max_chars`, saying how long the whole is.

    Args:
        text: the text, or head and tail of it.
        max_chars: most characters of the result.
        full_bytes: bytes of the whole when `text` is only a part of it.
    """
    if len(text) <= max_chars:
        return text
    whole = f"{full_bytes:,} bytes" if full_bytes is not None else f"{len(text):,} characters"
    note = f"\n… [cut: the whole output has {whole}] …\n"
    room = max(0, max_chars - len(note))
    head = room - room // 2
    return f"{text[:head]}{note}{text[len(text) - room // 2 :]}"


def _failure(done: attach_pb2.Done) -> str:
    error = done.error
    described = error.traceback.strip() or ": ".join(part for part in (error.type, error.message) if part)
    match done.status:
        case attach_pb2.EXECUTION_STATUS_TIMED_OUT:
            return f"The step was interrupted at its time limit.\n{described}".strip()
        case attach_pb2.EXECUTION_STATUS_CANCELLED:
            return f"The step was interrupted.\n{described}".strip()
        case attach_pb2.EXECUTION_STATUS_DIED:
            return f"The Python process died.\n{described}".strip()
        case _:
            return described or "The code failed."
