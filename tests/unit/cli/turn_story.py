"""A Turn's events, as the session service tells them."""

from __future__ import annotations

from fleet.common.v1 import budget_pb2, usage_pb2
from fleet.session.v1 import turn_event_pb2 as pb
from fleet.session.v1 import turn_pb2
from google.protobuf.message import Message

TURN = "sessions/s1/turns/t1"


def event(name: str, payload: Message, sequence: int = 1) -> pb.TurnEvent:
    made = pb.TurnEvent(turn=TURN, sequence=sequence)
    getattr(made, name).CopyFrom(payload)
    return made


def line(dimension: str, used: int, limit: int) -> budget_pb2.BudgetLine:
    value = budget_pb2.BudgetDimension.Value(f"BUDGET_DIMENSION_{dimension}")
    return budget_pb2.BudgetLine(dimension=value, used=used, limit=limit)


def step(number: int = 1, output: str = "42\n") -> list[pb.TurnEvent]:
    return [
        event("iteration_started", pb.IterationStarted(iteration=number, of=12)),
        event("reasoning", pb.StepText(iteration=number, text="I look.")),
        event("code", pb.StepText(iteration=number, text="print(6 * 7)")),
        event("output", pb.StepOutput(iteration=number, text=output[:1])),
        event("output", pb.StepOutput(iteration=number, text=output[1:])),
        event("iteration_completed", pb.IterationCompleted(iteration=number, duration_ms=1_500)),
    ]


def child_started(index: int) -> pb.TurnEvent:
    return event("child_started", pb.ChildStarted(index=index, task=f"read part {index}", batch_size=2))


def child_completed(index: int, status: str = "completed", error: str = "") -> pb.TurnEvent:
    done = pb.ChildCompleted(index=index, status=status, evidence=["a"], iterations=2, cleanup="confirmed", error=error)
    return event("child_completed", done)


def answer(text: str = "It is **42**.") -> pb.TurnEvent:
    return event("answer", pb.Answer(text=text, termination=turn_pb2.TERMINATION_SUBMIT))


def ended(how: str = "turn_completed", message: str = "") -> pb.TurnEvent:
    model = usage_pb2.ModelUsage(role="root", model="m", calls=1, prompt_tokens=1_000, completion_tokens=234)
    payload = pb.TurnEnded(
        usage=usage_pb2.Usage(models=[model]), duration_ms=2_000, budget=[line("OUTPUT_BYTES", 1_156, 2_000_000)]
    )
    if message:
        payload.error.message = message
    return event(how, payload)
