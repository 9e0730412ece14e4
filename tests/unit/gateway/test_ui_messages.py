from __future__ import annotations

import json
from typing import Any

import pytest
from fleet.common.v1.budget_pb2 import BUDGET_DIMENSION_LLM_CALLS, BudgetLine
from fleet.session.v1 import turn_event_pb2 as pb
from fleet.session.v1 import turn_pb2
from google.protobuf.message import Message

from gateway.ui_messages import CUT_TEXT, UNFINISHED_TEXT, UiMessageFrames

TURN = "sessions/s/turns/t"


class Stream:
    """What a stream sends, as parts."""

    def __init__(self) -> None:
        self.frames = UiMessageFrames()
        self._sequence = 0

    def send(self, **payload: Message) -> list[dict[str, Any]]:
        self._sequence += 1
        return parts(self.frames.events([pb.TurnEvent(turn=TURN, sequence=self._sequence, **payload)]))  # type: ignore[arg-type]

    def kinds(self, **payload: Message) -> list[str]:
        return [part["type"] for part in self.send(**payload)]


def parts(data: bytes) -> list[dict[str, Any]]:
    frames = data.decode().split("\n\n")
    assert frames.pop() == ""
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    return [json.loads(frame.removeprefix("data: ")) for frame in frames if frame != "data: [DONE]"]


@pytest.fixture
def stream() -> Stream:
    return Stream()


def begin(stream: Stream, iteration: int = 1) -> None:
    stream.send(iteration_started=pb.IterationStarted(iteration=iteration, of=9))


def test_message_begins_with_the_turn(stream: Stream) -> None:
    (start,) = stream.send(turn_started=pb.TurnStarted(session="sessions/s", root_model="m"))
    assert (start["type"], start["messageId"]) == ("start", "t")
    assert start["messageMetadata"]["root_model"] == "m"
    assert UiMessageFrames.headers == {"x-vercel-ai-ui-message-stream": "v1"}
    assert stream.frames.end() == b"data: [DONE]\n\n"


def test_step(stream: Stream) -> None:
    assert stream.kinds(iteration_started=pb.IterationStarted(iteration=1, of=9)) == ["start-step"]
    reasoning = stream.send(reasoning=pb.StepText(iteration=1, text="think"))
    assert [part["type"] for part in reasoning] == ["reasoning-start", "reasoning-delta", "reasoning-end"]
    assert (reasoning[1]["delta"], {part["id"] for part in reasoning}) == ("think", {"reasoning-1"})
    (code,) = stream.send(code=pb.StepText(iteration=1, text="print(1)"))
    assert code == {
        "type": "tool-input-available",
        "toolCallId": "step-1",
        "toolName": "python",
        "input": {"code": "print(1)"},
        "providerExecuted": True,
        "dynamic": True,
    }
    (delta,) = stream.send(output=pb.StepOutput(iteration=1, text="1"))
    assert (delta["type"], delta["transient"]) == ("data-output", True)
    (output,) = stream.send(output=pb.StepOutput(iteration=1, text="1\n", final=True, full_length=2))
    assert (output["type"], output["toolCallId"]) == ("tool-output-available", "step-1")
    assert output["output"] == {"text": "1\n", "truncated": False, "full_length": 2}
    assert stream.kinds(iteration_completed=pb.IterationCompleted(iteration=1)) == ["finish-step"]


def test_step_whose_code_raised(stream: Stream) -> None:
    begin(stream)
    stream.send(code=pb.StepText(iteration=1, text="1/0"))
    (output,) = stream.send(output=pb.StepOutput(iteration=1, text="ZeroDivisionError", final=True, error=True))
    assert (output["type"], output["errorText"]) == ("tool-output-error", "ZeroDivisionError")


def test_output_without_code_is_no_tool_output(stream: Stream) -> None:
    # Clients fail on the output of a call that they haven't seen.
    assert stream.kinds(output=pb.StepOutput(iteration=1, text="1", final=True)) == []
    assert stream.kinds(tool_completed=pb.ToolCompleted(call_id="x", tool="t")) == []


def test_steps_that_are_not_completed_are_finished_by_the_next(stream: Stream) -> None:
    begin(stream)
    assert stream.kinds(iteration_started=pb.IterationStarted(iteration=2)) == ["finish-step", "start-step"]


@pytest.mark.parametrize(("text", "value"), [('{"id": "a"}', {"id": "a"}), ('{"id": "a', '{"id": "a'), ("", "")])
def test_tools(stream: Stream, text: str, value: Any) -> None:
    (called,) = stream.send(tool_called=pb.ToolCalled(call_id="c", tool="read_attachment", input=text))
    assert (called["toolName"], called["input"]) == ("read_attachment", value)
    (returned,) = stream.send(tool_completed=pb.ToolCompleted(call_id="c", tool="read_attachment", output=text))
    assert (returned["type"], returned["output"]) == ("tool-output-available", value)
    stream.send(tool_called=pb.ToolCalled(call_id="d", tool="read_attachment"))
    (failed,) = stream.send(tool_completed=pb.ToolCompleted(call_id="d", tool="read_attachment", error="no such"))
    assert (failed["type"], failed["errorText"]) == ("tool-output-error", "no such")


def test_child_is_one_part_that_changes(stream: Stream) -> None:
    (started,) = stream.send(child_started=pb.ChildStarted(child_id="c", index=1, task="look", batch_size=2))
    (moved,) = stream.send(child_progress=pb.ChildProgress(child_id="c", index=1, iteration=3, detail="reading"))
    (ended,) = stream.send(child_completed=pb.ChildCompleted(child_id="c", index=1, status="completed"))
    assert {part["id"] for part in (started, moved, ended)} == {"c"}
    assert [part["data"]["status"] for part in (started, moved, ended)] == ["running", "running", "completed"]
    assert ended["data"]["task"] == "look"
    (never,) = stream.send(child_completed=pb.ChildCompleted(index=2, status="not_started"))
    assert (never["id"], never["data"]["status"]) == ("not-started-2", "not_started")


def test_budget_is_one_part_that_changes(stream: Stream) -> None:
    line = BudgetLine(dimension=BUDGET_DIMENSION_LLM_CALLS, used=0, limit=8)
    stream.send(turn_started=pb.TurnStarted(budget=[line]))
    line.used = 3
    (budget,) = stream.send(budget_updated=line)
    assert budget == {"type": "data-budget", "id": "budget", "data": {"llm_calls": {"used": 3, "limit": 8}}}


def test_what_the_protocol_has_no_part_for_is_data(stream: Stream) -> None:
    assert stream.send(warning=pb.Warning(code="c", message="m")) == [
        {"type": "data-warning", "data": {"code": "c", "message": "m"}}
    ]
    (phase,) = stream.send(turn_phase=pb.TurnPhase(phase=turn_pb2.TURN_STATE_RUNNING))
    assert (phase["type"], phase["transient"]) == ("data-turn-phase", True)
    assert stream.kinds(sandbox_ready=pb.SandboxReady()) == ["data-sandbox-ready"]
    assert stream.kinds(lm_called=pb.LmCalled(call_id="l")) == ["data-lm-called"]
    assert stream.kinds() == ["data-unknown"]


def test_answer_and_end(stream: Stream) -> None:
    answer = pb.Answer(text="42", termination=turn_pb2.TERMINATION_SUBMIT)
    answer.outputs["answer"] = "42"
    kinds = ["text-start", "text-delta", "text-end", "data-outputs"]
    sent = stream.send(answer=answer)
    assert [part["type"] for part in sent] == kinds
    assert sent[-1]["data"] == {"outputs": {"answer": "42"}, "termination": "submit"}
    (finish,) = stream.send(turn_completed=pb.TurnEnded(checkpoint_version=3))
    assert (finish["type"], finish["messageMetadata"]["checkpoint_version"]) == ("finish", 3)
    assert set(finish) == {"type", "messageMetadata"}


@pytest.mark.parametrize("field", ["turn_failed", "turn_timed_out"])
def test_failure_closes_what_is_open(stream: Stream, field: str) -> None:
    begin(stream)
    stream.send(code=pb.StepText(iteration=1, text="wait()"))
    error = turn_pb2.TurnError(reason="MODEL_UNAVAILABLE", message="the model is away")
    closed, step, failed, finish = stream.send(**{field: pb.TurnEnded(error=error)})
    assert (closed["type"], closed["errorText"]) == ("tool-output-error", UNFINISHED_TEXT)
    assert step == {"type": "finish-step"}
    assert failed == {"type": "error", "errorText": "the model is away"}
    assert finish["type"] == "finish"


def test_cancelled_turn_is_aborted(stream: Stream) -> None:
    begin(stream)
    assert stream.kinds(turn_cancelled=pb.TurnEnded()) == ["finish-step", "message-metadata", "abort"]


def test_cut_stream_says_so(stream: Stream) -> None:
    assert parts(stream.frames.cut()) == [{"type": "error", "errorText": CUT_TEXT}]
    assert stream.frames.cut().endswith(b"data: [DONE]\n\n")
