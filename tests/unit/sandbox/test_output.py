"""Capture: head and tail within the cap, the full length, always valid UTF-8."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.agent.output import Capture, cut


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(0, 60))
def test_what_is_kept(parts: list[bytes], limit: int) -> None:
    capture = Capture(limit)
    for part in parts:
        capture.add(part)
    printed = b"".join(parts)
    text = capture.text()
    text.decode()
    assert capture.total == len(printed)
    assert capture.truncated == (len(printed) > limit)
    if not capture.truncated:
        assert text == printed.decode("utf-8", "replace").encode()
    else:
        assert f"omitted of {len(printed)}".encode() in text


def test_head_and_tail_are_those_of_the_whole() -> None:
    capture = Capture(20)
    for number in range(1000):
        capture.add(f"{number:04d}".encode())
    head, _, tail = capture.text().decode().split("\n")
    assert (head, tail) == ("0000000100", "9709980999")


@pytest.mark.parametrize("limit", range(1, 12))
def test_characters_are_never_cut(limit: int) -> None:
    assert "\ufffd" not in cut("é€😀é€😀é€😀".encode(), limit).decode()
