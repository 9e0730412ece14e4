"""Facts of an invocation as payloads of a Turn's event log: bounded, storable, in the order they happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleet.common.v1 import budget_pb2
from fleet.session.v1 import turn_event_pb2 as pb
from google.protobuf.message import Message

from services.common.text import clean
from services.rlm import events
from services.rlm.budget.gate import Dimension, to_wire
from services.session.events.bounds import TEXT_BYTES, TOOL_BYTES, cut

SHORT_BYTES = 1024
"""Most bytes of a message, a name or an error in an event."""

_STREAMS: Mapping[str, pb.OutputStream.ValueType] = {
    "stdout": pb.OUTPUT_STREAM_STDOUT,
    "stderr": pb.OUTPUT_STREAM_STDERR,
}
_CUT = "\n… [cut] …\n"

Payload = tuple[str, Message]
"""The name of a `TurnEvent.payload` field and its message."""


def shown(text: str, limit: int = SHORT_BYTES) -> str:
    """`text` as an event can carry it: without lone surrogates and cut to `limit` bytes."""
    return cut(clean(text[:limit]), limit)


def cut_middle(text: str, limit: int) -> str:
    """`text` cut to `limit` bytes of UTF-8, keeping its head and its tail, where errors are told."""
    raw = clean(text).encode()
    if len(raw) <= limit:
        return raw.decode()
    room = limit - len(_CUT.encode())
    head, tail = raw[: room * 3 // 4], raw[-(room // 4) :]
    return head.decode(errors="ignore") + _CUT + tail.decode(errors="ignore")


def to_payload(event: events.RlmEvent) -> Payload:
    """Translate one fact of an invocation."""
    kind, make = _TRANSLATIONS[type(event)]
    return kind, make(event)


def budget_line(dimension: str, used: int, limit: int) -> budget_pb2.BudgetLine:
    """One dimension as protobuf."""
    return budget_pb2.BudgetLine(dimension=to_wire(Dimension(dimension)), used=used, limit=limit)


def warning(code: str, message: str) -> Payload:
    """A warning that people should see."""
    return "warning", pb.Warning(code=shown(code), message=shown(message))


def _step_text(event: events.Reasoning | events.Code) -> pb.StepText:
    text = shown(event.text, TEXT_BYTES)
    return pb.StepText(
        iteration=event.iteration, text=text, truncated=len(text) < len(event.text), full_length=len(event.text)
    )


def _output_delta(event: events.OutputDelta) -> pb.StepOutput:
    return pb.StepOutput(
        iteration=event.iteration,
        text=shown(event.text, TEXT_BYTES),
        final=False,
        stream=_STREAMS[event.stream],
        truncated=len(event.text) > TEXT_BYTES,
    )


def _output_final(event: events.OutputFinal) -> pb.StepOutput:
    text = cut_middle(event.text, TEXT_BYTES)
    return pb.StepOutput(
        iteration=event.iteration,
        text=text,
        final=True,
        truncated=event.truncated or len(text) < len(event.text),
        full_length=event.full_length,
        error=event.error,
    )


def _lm_called(event: events.LmCalled) -> pb.LmCalled:
    return pb.LmCalled(call_id=event.call_id, role=event.role, model=shown(event.model), purpose=shown(event.purpose))


def _lm_completed(event: events.LmCompleted) -> pb.LmCompleted:
    return pb.LmCompleted(
        call_id=event.call_id,
        role=event.role,
        model=shown(event.model),
        purpose=shown(event.purpose),
        prompt_tokens=event.prompt_tokens,
        completion_tokens=event.completion_tokens,
        duration_ms=event.duration_ms,
        error=shown(event.error),
    )


def _tool_called(event: events.ToolCalled) -> pb.ToolCalled:
    return pb.ToolCalled(call_id=event.call_id, tool=shown(event.tool), input=shown(event.input, TOOL_BYTES))


def _tool_completed(event: events.ToolCompleted) -> pb.ToolCompleted:
    return pb.ToolCompleted(
        call_id=event.call_id,
        tool=shown(event.tool),
        output=shown(event.output, TOOL_BYTES),
        error=shown(event.error),
        duration_ms=event.duration_ms,
    )


_TRANSLATIONS: Mapping[type, tuple[str, Callable[[Any], Message]]] = {
    events.IterationStarted: (
        "iteration_started",
        lambda e: pb.IterationStarted(iteration=e.iteration, of=e.of),
    ),
    events.IterationCompleted: (
        "iteration_completed",
        lambda e: pb.IterationCompleted(iteration=e.iteration, duration_ms=e.duration_ms, code_sha256=e.code_sha256),
    ),
    events.Reasoning: ("reasoning", _step_text),
    events.Code: ("code", _step_text),
    events.OutputDelta: ("output", _output_delta),
    events.OutputFinal: ("output", _output_final),
    events.LmCalled: ("lm_called", _lm_called),
    events.LmCompleted: ("lm_completed", _lm_completed),
    events.ToolCalled: ("tool_called", _tool_called),
    events.ToolCompleted: ("tool_completed", _tool_completed),
    events.BudgetUpdated: ("budget_updated", lambda e: budget_line(e.dimension, e.used, e.limit)),
    events.BudgetExhausted: (
        "budget_exhausted",
        lambda e: pb.BudgetExhausted(dimension=to_wire(e.dimension), finalizes=e.finalizes),
    ),
    events.Warned: ("warning", lambda e: warning(e.code, e.message)[1]),
}
