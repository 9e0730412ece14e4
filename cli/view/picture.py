"""A Turn as its events tell it: the state that the display draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fleet.session.v1.turn_event_pb2 import TurnEvent

from services.common.event_json import TERMINAL, event_json

Payload = dict[str, Any]


@dataclass
class Step:
    """One step of the Root's loop."""

    number: int
    of: int = 0
    reasoning: str = ""
    code: str = ""
    output: str = ""
    error: bool = False
    duration_ms: int = 0


@dataclass
class Child:
    """One child of the latest batch."""

    index: int
    task: str
    doing: str = "starting"
    status: str = "running"
    iterations: int = 0
    evidence: list[str] = field(default_factory=list)
    cleanup: str = ""


@dataclass
class Picture:
    """Everything that is known of a Turn so far.

    Attributes:
        finished: the step that has just ended, until the display has printed it.
        batch: children of the batch that runs, or the one that ran last.
        model_calls: open calls by id, as "role purpose".
    """

    turn: str = ""
    root_model: str = ""
    sub_model: str = ""
    phase: str = "queued"
    step: Step | None = None
    finished: Step | None = None
    batch: dict[int, Child] = field(default_factory=dict)
    budget: dict[str, tuple[int, int]] = field(default_factory=dict)
    model_calls: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    answer: str = ""
    termination: str = ""
    end: str = ""
    error: str = ""
    duration_ms: int = 0
    usage: list[Payload] = field(default_factory=list)

    def take(self, event: TurnEvent) -> None:
        """Add one event."""
        data = event_json(event)
        self.turn = data["turn"]
        handler = _HANDLERS.get(data["type"])
        if handler is not None:
            handler(self, data)
        if data["type"] in TERMINAL:
            _on_end(self, data)

    def take_finished(self) -> Step | None:
        """The step that has ended since the last call."""
        step, self.finished = self.finished, None
        return step


def _on_started(picture: Picture, data: Payload) -> None:
    picture.root_model, picture.sub_model = data["root_model"], data["sub_model"]
    picture.budget.update({name: (line["used"], line["limit"]) for name, line in data["budget"].items()})


def _on_phase(picture: Picture, data: Payload) -> None:
    picture.phase = (data["phase"] or "").lower() + (f": {data['detail']}" if data["detail"] else "")


def _on_sandbox(picture: Picture, data: Payload) -> None:
    kind = "resident" if data["resident"] else "fresh"
    why = f", {data['rotation_reason']}" if data["rotation_reason"] else ""
    picture.notices.append(f"sandbox ready in {data['duration_ms']} ms ({kind}{why}; {data['isolation']})")


def _on_iteration(picture: Picture, data: Payload) -> None:
    step = _step(picture, data["iteration"])
    step.of = data["of"]


def _on_iteration_end(picture: Picture, data: Payload) -> None:
    step = _step(picture, data["iteration"])
    step.duration_ms = data["duration_ms"]
    picture.finished, picture.step = step, None


def _on_reasoning(picture: Picture, data: Payload) -> None:
    _step(picture, data["iteration"]).reasoning = data["text"]


def _on_code(picture: Picture, data: Payload) -> None:
    _step(picture, data["iteration"]).code = data["text"]


def _on_output(picture: Picture, data: Payload) -> None:
    step = _step(picture, data["iteration"])
    step.output = data["text"] if data["final"] else step.output + data["text"]
    step.error = data["error"]


def _on_model_called(picture: Picture, data: Payload) -> None:
    picture.model_calls[data["call_id"]] = f"{data['role']} {data['purpose']}"


def _on_model_completed(picture: Picture, data: Payload) -> None:
    picture.model_calls.pop(data["call_id"], None)


def _on_child_started(picture: Picture, data: Payload) -> None:
    if all(child.status != "running" for child in picture.batch.values()):
        picture.batch.clear()
    picture.batch[data["index"]] = Child(data["index"], data["task"])


def _on_child_progress(picture: Picture, data: Payload) -> None:
    child = picture.batch.setdefault(data["index"], Child(data["index"], ""))
    child.iterations = max(child.iterations, data["iteration"])
    child.doing = data["detail"] or child.doing


def _on_child_completed(picture: Picture, data: Payload) -> None:
    child = picture.batch.setdefault(data["index"], Child(data["index"], ""))
    child.status, child.doing = data["status"], data["error"]
    child.iterations, child.evidence, child.cleanup = data["iterations"], data["evidence"], data["cleanup"] or ""


def _on_budget(picture: Picture, data: Payload) -> None:
    picture.budget[data["dimension"]] = (data["used"], data["limit"])


def _on_exhausted(picture: Picture, data: Payload) -> None:
    what = "; the answer is being taken" if data["finalizes"] else ""
    picture.notices.append(f"budget of {data['dimension']} is spent{what}")


def _on_warning(picture: Picture, data: Payload) -> None:
    picture.notices.append(f"{data['code']}: {data['message']}")


def _on_answer(picture: Picture, data: Payload) -> None:
    picture.answer, picture.termination = data["text"], data["termination"] or ""


def _on_end(picture: Picture, data: Payload) -> None:
    picture.end = data["type"].removeprefix("turn.")
    picture.error = (data["error"] or {}).get("message", "")
    picture.duration_ms = data["duration_ms"]
    picture.usage = (data["usage"] or {}).get("models", [])
    picture.budget.update({name: (line["used"], line["limit"]) for name, line in data["budget"].items()})
    if picture.step is not None:
        picture.finished, picture.step = picture.step, None


def _step(picture: Picture, number: int) -> Step:
    if picture.step is None or picture.step.number != number:
        picture.step = Step(number)
    return picture.step


_HANDLERS: dict[str, Callable[[Picture, Payload], None]] = {
    "turn.started": _on_started,
    "turn.phase": _on_phase,
    "sandbox.ready": _on_sandbox,
    "iteration.started": _on_iteration,
    "iteration.completed": _on_iteration_end,
    "reasoning": _on_reasoning,
    "code": _on_code,
    "output": _on_output,
    "lm.called": _on_model_called,
    "lm.completed": _on_model_completed,
    "child.started": _on_child_started,
    "child.progress": _on_child_progress,
    "child.completed": _on_child_completed,
    "budget.updated": _on_budget,
    "budget.exhausted": _on_exhausted,
    "warning": _on_warning,
    "answer": _on_answer,
}
