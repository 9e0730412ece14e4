"""The output contract and the fingerprint of what has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Optional

import dspy
import pytest

from services.rlm.contract.outputs import OutputContract, OutputError
from services.rlm.spec import RlmSpec
from services.rlm.tools import ToolDeclaration


class Report(dspy.Signature):
    """Report."""

    request: str = dspy.InputField()
    answer: str = dspy.OutputField()
    score: float = dspy.OutputField()
    kind: Literal["a", "b"] = dspy.OutputField()
    rows: list[dict[str, Any]] = dspy.OutputField()
    count: Optional[int] = dspy.OutputField()  # noqa: UP045 - what a Skill's author may write


GOOD: dict[str, Any] = {"answer": "yes", "score": "1.5", "kind": "a", "rows": [{"x": 1}], "count": None}


def _contract() -> OutputContract:
    return OutputContract(Report, max_output_chars=200)


def test_outputs_are_typed() -> None:
    assert _contract().check(GOOD) == {**GOOD, "score": 1.5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": " \n"}, "answer is blank"),
        ({"answer": None}, "expected str, got None"),
        ({"score": float("nan")}, "NaN or infinity"),
        ({"rows": [{"x": [float("inf")]}]}, "NaN or infinity"),
        ({"score": "many"}, "score: expected float"),
        ({"kind": "c"}, "kind: expected"),
        ({"rows": "no"}, "rows: expected"),
        ({"answer": "x" * 4001}, "at most 4,000"),
    ],
)
def test_what_breaks_the_contract_is_told(change: dict[str, Any], message: str) -> None:
    with pytest.raises(OutputError, match=message):
        _contract().check({**GOOD, **change})


def test_a_missing_output_is_named() -> None:
    with pytest.raises(OutputError, match="Missing outputs: score, rows"):
        _contract().check({name: value for name, value in GOOD.items() if name not in ("score", "rows")})


def test_lone_surrogates_are_replaced() -> None:
    assert _contract().check({**GOOD, "answer": "a\ud800"})["answer"] == "a\ufffd"


def _spec() -> RlmSpec:
    tool = ToolDeclaration("look", "Looks.", {"where": {"type": "string"}})
    return RlmSpec(Report, (tool,), 12, 32, 6000, "root", {"root": {"model": "m"}}, {"skills": {"a": "1"}})


def test_the_fingerprint_is_stable_and_sees_every_fact() -> None:
    spec = _spec()
    look = spec.tools[0]
    others = [
        replace(spec, signature=Report.with_instructions("Report!")),
        replace(spec, signature=Report.append("more", dspy.OutputField(), str)),
        replace(spec, tools=()),
        replace(spec, tools=(replace(look, description="Looks well."),)),
        replace(spec, tools=(replace(look, parameters={"where": {"type": "array"}}),)),
        replace(spec, max_iters=11),
        replace(spec, max_llm_calls=31),
        replace(spec, max_output_chars=5999),
        replace(spec, role="child"),
        replace(spec, models={"root": {"model": "n"}}),
        replace(spec, policy={"skills": {"a": "2"}}),
    ]
    prints = [each.fingerprint() for each in [spec, *others]]
    assert len(set(prints)) == len(prints)
    assert _spec().fingerprint() == prints[0]
    assert len(prints[0]) == 64
