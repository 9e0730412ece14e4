"""Step numbers, their events and the record for extraction."""

from __future__ import annotations

import hashlib

from services.rlm.events import Code, IterationCompleted, IterationStarted, Reasoning, RlmEvent
from services.rlm.invocation.steps import UNREAD_CODE, StepRecord, Steps


def test_a_step_goes_from_its_beginning_to_its_output() -> None:
    events: list[RlmEvent] = []
    steps = Steps(events.append, of=5)
    assert steps.begin() == 1
    assert steps.begin() == 1, "a re-ask is no new step"
    steps.reasoned("think \ud800", "x = 1")
    assert steps.running("x = 1") == 1
    steps.complete("x = 1", "done")
    assert steps.running("y") == 2, "without callbacks the interpreter begins the step"
    steps.complete("y", "")
    assert steps.records == [StepRecord("think \ud800", "x = 1", "done"), StepRecord("", "y", "")]
    assert [type(event) for event in events] == [
        IterationStarted, Reasoning, Code, IterationCompleted, IterationStarted, Code, IterationCompleted,
    ]  # fmt: skip
    assert events[0] == IterationStarted(1, 5)
    assert events[1] == Reasoning(1, "think \ufffd")
    assert isinstance(events[3], IterationCompleted)
    assert events[3].code_sha256 == hashlib.sha256(b"x = 1").hexdigest()


def test_code_that_never_reached_the_interpreter_is_recorded() -> None:
    steps = Steps(lambda event: None, of=5)
    steps.begin()
    steps.reasoned("a", "```js\n1\n```")
    assert steps.begin() == 2
    assert steps.records == [StepRecord("a", "```js\n1\n```", UNREAD_CODE)]
