"""What the model is told, for each shipped profile; run with UPDATE_SNAPSHOTS=1 to write the texts anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import dspy
import pytest

from config.loader import load, profiles
from config.policy import Policy
from services.rlm.contract.inputs import CHILD_INPUTS, ROOT_INPUTS
from services.rlm.contract.signatures import child_signature, root_signature
from services.rlm.instructions import compose_child, compose_root

SNAPSHOTS = Path(__file__).parent / "snapshots"


def _policy(profile: str = "local", *overrides: str) -> Policy:
    daytona = ["sandbox.deployment_id=snapshot"] if profile.startswith("daytona") else []
    return load(profile, overrides=[*daytona, *overrides], env={}, components=())


@pytest.mark.parametrize("profile", profiles())
@pytest.mark.parametrize("role", ["root", "child"])
def test_composed_instructions_of_each_profile(profile: str, role: str) -> None:
    compose = {"root": compose_root, "child": compose_child}[role]
    text = compose(_policy(profile)) + "\n"
    file = SNAPSHOTS / f"{profile}-{role}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(text)
    assert text == file.read_text()


def test_recursion_is_left_out_when_it_is_off() -> None:
    off = compose_root(_policy("local", "rlm.recursion_enabled=false"))
    assert "rlm_query" not in off
    assert "child" not in off.lower()
    on = compose_root(_policy("local", "rlm.recursion_max_calls=7", "rlm.recursion_max_parallel_children=3"))
    assert re.search(r"At most 7 children may be started in this Turn, 3 at a time\.", on)
    assert "inputs=[attachments[0].path]" in on


def test_skills_come_last_and_in_order() -> None:
    text = compose_root(_policy(), ["First skill.", " ", "Second skill."])
    assert text.endswith("First skill.\n\nSecond skill.")


def test_limits_are_those_of_the_policy() -> None:
    policy = _policy("local", "rlm.max_output_chars=1234", "rlm.execution_timeout_seconds=77.0")
    assert "1,234 characters" in compose_root(policy)
    assert "77 seconds" in compose_root(policy)
    assert "There is no network" in compose_child(policy)


def test_root_fields_and_types() -> None:
    signature = root_signature(_policy(), ["Extra."])
    assert tuple(signature.input_fields) == ROOT_INPUTS
    assert signature.input_fields["history"].annotation is dspy.History
    assert {name: field.annotation for name, field in signature.output_fields.items()} == {"answer": str}
    assert signature.instructions.endswith("Extra.")


def test_child_fields_and_types() -> None:
    signature = child_signature(_policy())
    assert tuple(signature.input_fields) == CHILD_INPUTS
    assert {name: field.annotation for name, field in signature.output_fields.items()} == {
        "answer": str, "evidence": list[str], "gaps": list[str], "result_files": list[str],
    }  # fmt: skip


def test_dspy_accepts_both_and_shows_the_whole_text() -> None:
    for signature in (root_signature(_policy()), child_signature(_policy())):
        action = dspy.RLM(signature, max_iters=3).generate_action.signature.instructions
        assert signature.instructions in action
