"""What a child may bring back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.recursion.children.outcomes import (
    MAX_FINDING_CHARS,
    MAX_FINDINGS,
    MAX_RESULT_BYTES,
    ChildFailed,
    read_findings,
)
from services.recursion.children.results import declared_paths


def test_evidence_and_gaps_are_cut_and_the_answer_is_kept() -> None:
    findings = read_findings(
        {"answer": "yes", "evidence": ["x" * 600] + ["y"] * 40, "gaps": [], "result_files": ["a.txt"]}
    )
    assert findings.answer == "yes"
    assert len(findings.evidence) == MAX_FINDINGS
    assert findings.evidence[0] == "x" * (MAX_FINDING_CHARS - 1) + "…"
    assert findings.evidence[-1] == "(10 more items were left out)"
    assert findings.gaps == ()
    assert findings.result_files == ("a.txt",)


@pytest.mark.parametrize(
    ("outputs", "category"),
    [
        ({"answer": ""}, "invalid_output"),
        ({"answer": " \n"}, "invalid_output"),
        ({"answer": None}, "invalid_output"),
        ({}, "invalid_output"),
        ({"answer": "é" * (MAX_RESULT_BYTES // 2 + 1)}, "invalid_output"),
        ({"answer": "x", "result_files": ["a"] * 2}, "invalid_results"),
        ({"answer": "x", "result_files": [str(number) for number in range(17)]}, "invalid_results"),
    ],
)
def test_what_breaks_the_rules_is_a_failure_with_a_category(outputs: dict[str, object], category: str) -> None:
    with pytest.raises(ChildFailed) as failure:
        read_findings(outputs)
    assert failure.value.failure.category == category


@given(
    st.fixed_dictionaries(
        {
            "answer": st.text(st.characters(codec=None), max_size=60).map(lambda text: "a" + text),
            "evidence": st.lists(st.text(st.characters(codec=None), max_size=600), max_size=40),
            "gaps": st.lists(st.one_of(st.text(max_size=10), st.integers(), st.none()), max_size=40),
        }
    )
)
def test_findings_always_fit_the_wire(outputs: dict[str, object]) -> None:
    findings = read_findings(outputs)
    for items in (findings.evidence, findings.gaps):
        assert len(items) <= MAX_FINDINGS
        assert all(len(item) <= MAX_FINDING_CHARS and item.encode() for item in items)
    assert findings.answer.encode()


@pytest.mark.parametrize("paths", [["../a"], ["/etc/passwd"], ["a", "A"], [""], ["a/./b"], ["/scratch/../x"]])
def test_declared_paths_stay_in_the_sandbox(paths: list[str]) -> None:
    with pytest.raises(ChildFailed) as failure:
        declared_paths(paths, "/scratch")
    assert failure.value.failure.category == "invalid_results"


def test_absolute_paths_below_the_mount_root_are_what_a_child_knows() -> None:
    assert declared_paths(["/scratch/out/a.md", "b.md"], "/scratch") == ["out/a.md", "b.md"]
