"""The value store: parts make values, the limit holds, values come out fresh."""

import pytest

from services.sandbox.agent.values import ValueStore, VariableError, decode


def test_parts_make_a_value() -> None:
    store = ValueStore()
    store.add_part("h", b"ab", 4)
    assert store.hashes() == []
    with pytest.raises(VariableError):
        store.get("h")
    store.add_part("h", b"cd", 4)
    assert store.get("h") == b"abcd"
    store.add_part("h", b"ignored", 4)
    assert store.get("h") == b"abcd"


def test_an_empty_value_is_complete_at_once() -> None:
    store = ValueStore()
    store.add_part("h", b"", 0)
    assert store.get("h") == b""


def test_more_bytes_than_announced_are_refused() -> None:
    store = ValueStore()
    with pytest.raises(VariableError):
        store.add_part("h", b"abc", 2)


def test_the_least_recently_used_value_goes_first() -> None:
    store = ValueStore(limit=6)
    for name in "abc":
        store.add_part(name, b"xx", 2)
    store.get("a")
    store.add_part("d", b"xx", 2, keep=["c"])
    assert store.hashes() == ["c", "a", "d"]
    assert store.dropped == {"b"}


def test_a_value_beyond_the_limit_is_refused() -> None:
    with pytest.raises(VariableError):
        ValueStore(limit=6).add_part("h", b"x", 7)


@pytest.mark.parametrize(
    ("encoding", "data", "value"),
    [
        ("text", "é\ud800".encode("utf-8", "surrogatepass"), "é\ud800"),
        ("json", b'{"a":[1,null]}', {"a": [1, None]}),
        ("json", b"NaN", VariableError),
        ("bytes", b"\0\xff", b"\0\xff"),
        ("text", b"\xff", VariableError),
        ("json", b"{", VariableError),
        ("pickle", b"", VariableError),
    ],
)
def test_decoding(encoding: str, data: bytes, value: object) -> None:
    if value is VariableError:
        with pytest.raises(VariableError):
            decode(encoding, data)
    else:
        assert decode(encoding, data) == value
