from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ranges import ByteRange, parse_range


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", ByteRange(0, 1, 10)),
        ("bytes=2-5", ByteRange(2, 4, 10)),
        ("bytes=7-", ByteRange(7, 3, 10)),
        ("bytes=7-99", ByteRange(7, 3, 10)),
        ("bytes=-3", ByteRange(7, 3, 10)),
        ("bytes=-99", ByteRange(0, 10, 10)),
        (None, None),
        ("bytes=5-2", None),
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-1", None),
    ],
)
def test_one_range(header: str | None, expected: ByteRange | None) -> None:
    assert parse_range(header, 10) == expected


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-20", "bytes=-0"])
def test_outside_the_file(header: str) -> None:
    with pytest.raises(ValueError):
        parse_range(header, 10)


@given(st.text(max_size=30), st.integers(0, 1000))
def test_any_header_stays_inside_the_file(header: str, total: int) -> None:
    try:
        found = parse_range(f"bytes={header}", total)
    except ValueError:
        return
    if found is not None:
        assert 0 <= found.offset < found.offset + found.length <= total
