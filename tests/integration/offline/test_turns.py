"""Whole Turns: the real RLM and its stock client against the real server."""

from __future__ import annotations

from pathlib import Path

import dspy
import pytest

from tests.fakes.offline_repl import OfflineRepl, attach
from tests.integration.offline.rig import Rig

EXAMPLES = Path(__file__).parents[3] / "examples"
LICENCES = sorted((EXAMPLES / "licenses").glob("*.txt"))
WEATHER = EXAMPLES / "tables" / "seattle-weather.csv"


def test_the_licences_question(rig: Rig) -> None:
    turn = rig.ask("What does each of these licences say about patents, and how do they differ?", attach(LICENCES))
    assert [call["inputs"] for call in turn.tasks] == [[item.path] for item in attach(LICENCES)]
    assert len(turn.children) == 4
    assert "Grant of Patent License" in turn.answer
    assert "Nothing in it mentions 'patents'." in turn.answer
    assert "### How they differ" in turn.answer
    assert turn.prediction.final_reasoning != "Extract forced final output"


def test_the_weather_question(rig: Rig) -> None:
    turn = rig.ask("Which month was the wettest, and how many days had more than 20 mm?", attach([WEATHER]))
    assert "**2015-12** with 284.5" in turn.answer
    assert "**51**" in turn.answer
    assert turn.answer.count("a second computation agrees") == 3
    assert turn.answer.splitlines()[-1].startswith("This answer comes from the offline model")


def test_an_error_in_a_step_is_seen_and_passed(rig: Rig) -> None:
    broken = {"second way": RuntimeError("no more memory")}
    turn = rig.ask("How many days had more than 20 mm?", attach([WEATHER]), broken=broken)
    assert "**51**" in turn.answer
    assert "not checked" in turn.answer


def test_when_steps_run_out_the_answer_is_extracted_from_what_was_printed(rig: Rig) -> None:
    turn = rig.ask("Which month was the wettest?", attach([WEATHER]), max_iters=0)
    assert turn.prediction.final_reasoning == "Extract forced final output"
    assert "before an answer was submitted" in turn.answer
    assert "offline model" in turn.answer


def test_a_long_request_is_read_in_the_sandbox(rig: Rig) -> None:
    request = f"Please mind that {'the office is closed on holidays and ' * 60}now: how many days had more than 20 mm?"
    assert len(request) > 2000
    assert "**51**" in rig.ask(request, attach([WEATHER])).answer


@pytest.mark.parametrize(
    "signature", ["context, question -> answer", "question, notes -> summary: str, tags: list[str]"]
)
def test_any_other_signature_is_answered_from_its_texts(rig: Rig, signature: str) -> None:
    rlm = dspy.RLM(signature, max_iters=6)
    text = "The lighthouse was built in 1871. It is painted white."
    names = {"question": "When was the lighthouse built?"} | {n: text for n in ("context", "notes") if n in signature}
    with dspy.context(lm=rig.lm, adapter=rig.adapter, disable_history=True, trace=None):
        prediction = rlm(OfflineRepl({}), **names)
    assert "The lighthouse was built in 1871." in (prediction.get("answer") or prediction.get("summary"))


def test_usage_reaches_dspy(rig: Rig) -> None:
    with dspy.track_usage() as tracker:
        rig.ask("hello")
    (usage,) = tracker.get_total_tokens().values()
    assert usage["prompt_tokens"] > 500
    assert usage["completion_tokens"] > 20
