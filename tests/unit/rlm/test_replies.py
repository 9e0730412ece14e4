"""Sections of DSPy's chat format, and whole JSON objects."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rlm.adapter.replies import json_object, sections, without_thoughts


def test_sections_end_at_markers() -> None:
    text = "[[ ## a ## ]]\none\n\n[[ ## b ## ]] two\n\n[[ ## completed ## ]]\n\n[[ ## a ## ]]\nagain"
    assert sections(text, ["a", "b"]) == {"a": "one", "b": "two"}


def test_markers_of_other_fields_are_text() -> None:
    text = "[[ ## a ## ]]\none\n[[ ## answer ## ]]\ntwo\n[[ ## completed ## ]]"
    assert sections(text, ["a"]) == {"a": "one\n[[ ## answer ## ]]\ntwo"}


def test_a_whole_section_goes_on_over_end_markers() -> None:
    text = "[[ ## r ## ]]\nwhy\n[[ ## code ## ]]\nx = 1\n[[ ## completed ## ]]\ny = 2"
    assert sections(text, ["r", "code"], {"code"})["code"] == "x = 1\n[[ ## completed ## ]]\ny = 2"


def test_text_before_the_first_marker_is_no_field() -> None:
    assert sections("Sure!\n[[ ## a ## ]]\none", ["a", "b"]) == {"a": "one"}
    assert sections("no markers", ["a"]) == {}


def test_only_the_first_marker_of_a_field_counts() -> None:
    assert sections("[[ ## a ## ]]\none\n[[ ## a ## ]]\ntwo", ["a"]) == {"a": "one\n[[ ## a ## ]]\ntwo"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": "x\ny"}\n```', {"a": "x\ny"}),
        ('{"a": 1} trailing', None),
        ('{"a": ', None),
        ("[1]", None),
        ("", None),
        ("{" * 5_000, None),
    ],
)
def test_json_objects(text: str, value: object) -> None:
    assert json_object(text) == value


def test_thoughts_before_the_reply_are_left_out() -> None:
    assert without_thoughts("\n<think>\n[[ ## a ## ]] no\n</think>\n[[ ## a ## ]]\nyes") == "\n[[ ## a ## ]]\nyes"
    assert without_thoughts("[[ ## a ## ]]\n<think>x</think>") == "[[ ## a ## ]]\n<think>x</think>"
    assert without_thoughts("<think>without an end") == "<think>without an end"


@given(st.dictionaries(st.sampled_from(["reasoning", "code"]), st.text()))
def test_any_json_object_is_read(values: dict[str, str]) -> None:
    assert json_object(json.dumps(values, indent=1)) == values
