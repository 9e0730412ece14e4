"""The output contract."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import FleetError
from services.common.redaction import Redactor
from services.session.running.validation import check_outputs

REDACTOR = Redactor(["super-secret-value"])
ANY_TEXT = st.text(st.characters(codec=None, categories=None))


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ({"answer": "  \n"}, "blank"),
        ({}, "blank"),
        ({"answer": None}, "blank"),
        ({"answer": "x", "metric": float("nan")}, "not finite"),
        ({"answer": "x", "metric": [{"a": float("inf")}]}, "not finite"),
        ({"answer": "x" * 101}, "at most 100"),
        ({"answer": "the key is super-secret-value"}, "secret"),
        ({"answer": "x", "m": {"super-secret-value": 1}}, "secret"),
        ({"answer": "x", "m": object()}, "not a JSON value"),
    ],
)
def test_what_breaks_the_contract_is_named_and_not_shown(outputs: dict[str, Any], says: str) -> None:
    with pytest.raises(FleetError, match=says) as caught:
        check_outputs(outputs, 100, REDACTOR)
    assert caught.value.reason == "OUTPUT_INVALID"
    assert "super-secret" not in caught.value.message


def test_nesting_is_bounded() -> None:
    value: Any = 1
    for _ in range(500):
        value = [value]
    with pytest.raises(FleetError, match="nested"):
        check_outputs({"answer": "x", "deep": value}, 1000, REDACTOR)


@given(st.dictionaries(ANY_TEXT, ANY_TEXT | st.integers() | st.lists(ANY_TEXT)))
def test_what_passes_is_storable(extra: dict[str, Any]) -> None:
    checked = check_outputs({**extra, "answer": "a\x00b\ud800"}, 100_000, REDACTOR)
    str(checked).encode()
    assert checked["answer"] == "a�b�"
    assert "\x00" not in "".join(value for value in checked.values() if isinstance(value, str))
