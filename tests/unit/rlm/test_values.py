"""Values as bytes."""

from __future__ import annotations

import hashlib
import json

import pytest
from fleet.sandbox.v1 import attach_pb2
from hypothesis import given
from hypothesis import strategies as st

from services.rlm.interpreter.values import PART_BYTES, ValueCache, ValueNotJsonError, encode, parts, to_json, variables

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=20,
)


@given(json_values)
def test_json_values_come_back(value: object) -> None:
    if isinstance(value, str):
        assert encode(value).data.decode("utf-8", "surrogatepass") == value
    else:
        assert json.loads(encode(value).data) == value


@given(st.one_of(st.text(), st.binary()), st.one_of(st.text(), st.binary()))
def test_hashes_tell_encodings_apart(one: str | bytes, other: str | bytes) -> None:
    same = type(one) is type(other) and one == other
    assert (encode(one).sha256 == encode(other).sha256) == same


def test_the_hash_is_over_encoding_and_bytes() -> None:
    assert encode(b"x").sha256 == hashlib.sha256(b"\x03x").hexdigest()


@pytest.mark.parametrize("value", [{1, 2}, object(), [b"x"]])
def test_what_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(ValueNotJsonError):
        encode(value)


def test_nan_is_refused_where_it_must_be_finite() -> None:
    assert to_json(float("nan")) == b"NaN"
    with pytest.raises(ValueNotJsonError):
        to_json(float("nan"), allow_nan=False)


def test_large_values_come_in_parts_and_each_value_once() -> None:
    big = b"x" * (PART_BYTES + 1)
    encoded = {"a": encode(big), "b": encode(big), "c": encode(""), "d": encode("held")}
    sent = list(parts(encoded, {encode("held").sha256}))
    assert [len(part.data) for part in sent] == [PART_BYTES, 1, 0]
    assert {part.byte_size for part in sent} == {PART_BYTES + 1, 0}
    assert [variable.name for variable in variables(encoded)] == ["a", "b", "c", "d"]
    assert variables(encoded)[0].encoding == attach_pb2.VARIABLE_ENCODING_BYTES


def test_an_object_is_encoded_once_while_the_cache_holds_it() -> None:
    cache, value = ValueCache(), ["a"]
    assert cache.encode(value) is cache.encode(value)
    cache.clear()
    assert cache.encode(value) == encode(value)
