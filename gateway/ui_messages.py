"""Turn events as the UI message stream of the Vercel AI SDK, version 1.

Steps become steps, code a dynamic tool named `python`, host tools dynamic tools, the answer text. What the protocol
has no part for is a `data-…` part; those with an id replace their former state. Clients of the SDK check every part
strictly, so parts have no fields beside the protocol's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from fleet.session.v1.turn_event_pb2 import TurnEvent

from gateway.event_frames import frame_data
from services.common.event_json import event_json

Part = dict[str, Any]
"""One part of the stream."""

PYTHON_TOOL = "python"
"""Name of the tool that steps' code is shown as."""

CUT_TEXT = "The connection was lost; the Turn goes on. Load it again to see the rest."
"""What a client is told when a stream ends before its Turn."""

UNFINISHED_TEXT = "The Turn ended before this returned."

_ENVELOPE = ("turn", "sequence", "type", "time")
_TRANSIENT = frozenset({"turn.phase", "lm.called", "lm.completed"})


class UiMessageFrames:
    """Writes one stream: data-only frames, `[DONE]` at the end."""

    headers: Mapping[str, str] = MappingProxyType({"x-vercel-ai-ui-message-stream": "v1"})

    def __init__(self) -> None:
        self._step = False
        self._calls: dict[str, None] = {}
        self._children: dict[str, Part] = {}
        self._budget: Part = {}

    def events(self, events: Iterable[TurnEvent]) -> bytes:
        """The frames of what `events` become."""
        return b"".join(b"data: %b\n\n" % frame_data(part) for event in events for part in self._parts(event))

    def end(self) -> bytes:
        """The end of the stream."""
        return b"data: [DONE]\n\n"

    def cut(self) -> bytes:
        """An error, since these clients don't come back by themselves, and the end."""
        return b"data: %b\n\n" % frame_data({"type": "error", "errorText": CUT_TEXT}) + self.end()

    def _parts(self, event: TurnEvent) -> Iterator[Part]:
        data = event_json(event)
        envelope = {name: data.pop(name) for name in _ENVELOPE}
        kind = str(envelope["type"])
        if kind == "turn.started":
            self._budget = dict(data["budget"])
            yield {"type": "start", "messageId": envelope["turn"].rpartition("/")[2], "messageMetadata": data}
        elif (write := _WRITERS.get(kind)) is not None:
            yield from write(self, data)
        elif kind.startswith("turn.") and kind != "turn.phase":
            yield from self._ended(kind, data)
        else:
            yield _data(kind, data, transient=kind in _TRANSIENT)

    def _iteration_started(self, _data: Part) -> Iterator[Part]:
        yield from self._finish_step()
        self._step = True
        yield {"type": "start-step"}

    def _iteration_completed(self, _data: Part) -> Iterator[Part]:
        yield from self._finish_step()

    def _reasoning(self, data: Part) -> Iterator[Part]:
        yield from _text("reasoning", f"reasoning-{data['iteration']}", data["text"])

    def _answer(self, data: Part) -> Iterator[Part]:
        yield from _text("text", "answer", data["text"])
        yield _data("outputs", {"outputs": data["outputs"], "termination": data["termination"]})

    def _code(self, data: Part) -> Iterator[Part]:
        yield self._call(f"step-{data['iteration']}", PYTHON_TOOL, {"code": data["text"]})

    def _output(self, data: Part) -> Iterator[Part]:
        call = f"step-{data['iteration']}"
        if not data["final"]:
            yield _data("output", data, transient=True)
        elif call in self._calls:
            output = {name: data[name] for name in ("text", "truncated", "full_length")}
            yield self._returned(call, output, data["text"] if data["error"] else "")

    def _tool_called(self, data: Part) -> Iterator[Part]:
        yield self._call(data["call_id"], data["tool"], _parsed(data["input"]))

    def _tool_completed(self, data: Part) -> Iterator[Part]:
        if data["call_id"] in self._calls:
            yield self._returned(data["call_id"], _parsed(data["output"]), data["error"])

    def _child(self, data: Part) -> Iterator[Part]:
        child = data["child_id"] or f"not-started-{data['index']}"
        state = self._children.setdefault(child, {"status": "running"})
        state.update(data)
        yield _data("child", state, part_id=child)

    def _budget_updated(self, data: Part) -> Iterator[Part]:
        self._budget[data["dimension"]] = {"used": data["used"], "limit": data["limit"]}
        yield _data("budget", self._budget, part_id="budget")

    def _ended(self, kind: str, data: Part) -> Iterator[Part]:
        for call in list(self._calls):
            yield self._returned(call, None, UNFINISHED_TEXT)
        yield from self._finish_step()
        if kind == "turn.cancelled":
            yield {"type": "message-metadata", "messageMetadata": data}
            yield {"type": "abort"}
            return
        if data["error"] is not None:
            yield {"type": "error", "errorText": data["error"]["message"]}
        yield {"type": "finish", "messageMetadata": data}

    def _finish_step(self) -> Iterator[Part]:
        if self._step:
            self._step = False
            yield {"type": "finish-step"}

    def _call(self, call: str, tool: str, value: Any) -> Part:
        self._calls[call] = None
        made = {"toolCallId": call, "toolName": tool, "input": value, "providerExecuted": True, "dynamic": True}
        return {"type": "tool-input-available", **made}

    def _returned(self, call: str, output: Any, error: str) -> Part:
        del self._calls[call]
        known = {"toolCallId": call, "providerExecuted": True, "dynamic": True}
        if error:
            return {"type": "tool-output-error", **known, "errorText": error}
        return {"type": "tool-output-available", **known, "output": output}


_WRITERS: Mapping[str, Callable[[UiMessageFrames, Part], Iterator[Part]]] = MappingProxyType(
    {
        "iteration.started": UiMessageFrames._iteration_started,
        "iteration.completed": UiMessageFrames._iteration_completed,
        "reasoning": UiMessageFrames._reasoning,
        "code": UiMessageFrames._code,
        "output": UiMessageFrames._output,
        "tool.called": UiMessageFrames._tool_called,
        "tool.completed": UiMessageFrames._tool_completed,
        "child.started": UiMessageFrames._child,
        "child.progress": UiMessageFrames._child,
        "child.completed": UiMessageFrames._child,
        "budget.updated": UiMessageFrames._budget_updated,
        "answer": UiMessageFrames._answer,
    }
)


def _text(kind: str, part_id: str, text: str) -> Iterator[Part]:
    yield {"type": f"{kind}-start", "id": part_id}
    yield {"type": f"{kind}-delta", "id": part_id, "delta": text}
    yield {"type": f"{kind}-end", "id": part_id}


def _data(kind: str, data: Part, *, part_id: str = "", transient: bool = False) -> Part:
    part: Part = {"type": f"data-{kind.replace('.', '-')}", "data": data}
    if part_id:
        part["id"] = part_id
    if transient:
        part["transient"] = True
    return part


def _parsed(text: str) -> Any:
    """The value of JSON text, or the text itself where it was cut."""
    try:
        return json.loads(text)
    except ValueError:
        return text
