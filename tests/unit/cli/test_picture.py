"""What the display knows of a Turn after its events."""

from __future__ import annotations

import pytest
from fleet.session.v1 import turn_event_pb2 as pb
from fleet.session.v1 import turn_pb2

from cli.view.picture import Picture
from tests.unit.cli.turn_story import TURN, answer, child_completed, child_started, ended, event, line, step


def taken(*events: pb.TurnEvent) -> Picture:
    picture = Picture()
    for one in events:
        picture.take(one)
    return picture


def test_a_step_is_finished_once() -> None:
    picture = taken(*step())
    done = picture.take_finished()
    assert done is not None
    assert (done.number, done.of, done.code, done.output) == (1, 12, "print(6 * 7)", "42\n")
    assert (done.reasoning, done.duration_ms, done.error) == ("I look.", 1_500, False)
    assert picture.take_finished() is None


def test_the_final_output_replaces_what_was_streamed() -> None:
    final = event("output", pb.StepOutput(iteration=1, text="4 … 2", final=True, error=True))
    picture = taken(*step()[:-1], final)
    assert picture.step is not None
    assert (picture.step.output, picture.step.error) == ("4 … 2", True)


def test_a_turn_that_ends_in_the_middle_of_a_step_shows_that_step() -> None:
    picture = taken(*step()[:-1], ended("turn_cancelled", "The Turn was cancelled."))
    assert picture.take_finished() is not None
    assert (picture.end, picture.error) == ("cancelled", "The Turn was cancelled.")


def test_children_of_the_next_batch_replace_those_of_the_last() -> None:
    picture = taken(child_started(0), child_started(1), child_completed(1))
    assert {index: child.status for index, child in picture.batch.items()} == {0: "running", 1: "completed"}
    picture.take(event("child_progress", pb.ChildProgress(index=0, iteration=3, detail="reads")))
    assert (picture.batch[0].iterations, picture.batch[0].doing) == (3, "reads")
    picture.take(child_completed(0, "failed", "no sandbox"))
    assert (picture.batch[0].status, picture.batch[0].doing) == ("failed", "no sandbox")
    picture.take(child_started(0))
    assert list(picture.batch) == [0]


def test_calls_budget_and_notices() -> None:
    picture = taken(
        event("turn_started", pb.TurnStarted(root_model="big", sub_model="small", budget=[line("ITERATIONS", 0, 12)])),
        event("turn_phase", pb.TurnPhase(phase=turn_pb2.TURN_STATE_RUNNING, detail="the Root works")),
        event("lm_called", pb.LmCalled(call_id="c", role="root", purpose="action")),
        event("budget_updated", line("ITERATIONS", 1, 12)),
        event("budget_exhausted", pb.BudgetExhausted(dimension=line("ITERATIONS", 0, 0).dimension, finalizes=True)),
        event("warning", pb.Warning(code="SLOW", message="it is slow")),
        event("sandbox_ready", pb.SandboxReady(resident=True, duration_ms=9, isolation="bubblewrap")),
    )
    assert (picture.root_model, picture.sub_model, picture.phase) == ("big", "small", "running: the Root works")
    assert picture.model_calls == {"c": "root action"}
    assert picture.budget == {"iterations": (1, 12)}
    assert picture.notices == [
        "budget of iterations is spent; the answer is being taken",
        "SLOW: it is slow",
        "sandbox ready in 9 ms (resident; bubblewrap)",
    ]
    picture.take(event("lm_completed", pb.LmCompleted(call_id="c")))
    assert picture.model_calls == {}


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled", "timed_out"])
def test_every_end(how: str) -> None:
    picture = taken(answer(), ended(f"turn_{how}", "" if how == "completed" else "why"))
    assert (picture.turn, picture.end, picture.duration_ms) == (TURN, how, 2_000)
    assert picture.termination == "submit"
    assert picture.budget == {"output_bytes": (1_156, 2_000_000)}


def test_events_of_a_later_release_are_passed_over() -> None:
    assert taken(pb.TurnEvent(turn=TURN, sequence=1)).end == ""
