"""The path rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import FleetError
from services.sandbox.files import paths


@given(st.text(max_size=40))
def test_what_is_accepted_is_canonical(path: str) -> None:
    error: FleetError | None = None
    try:
        paths.split(path)
    except FleetError as refused:
        error = refused
    if error is not None:
        assert error.reason == "PATH_INVALID"
        return
    segments = paths.split(path)
    assert "/".join(segments) == path
    assert len(segments) <= paths.MAX_DEPTH
    assert all(segment not in ("", ".", "..") for segment in segments)
    assert not set(path) & set("\\\0\n\x7f\x9f")


_names = st.text(
    st.characters(categories=["L", "N", "Zs", "Po"], exclude_characters="/\\"), min_size=1, max_size=20
).filter(lambda name: name not in (".", ".."))


@given(st.lists(_names, min_size=1, max_size=8))
def test_ordinary_names_are_accepted(names: list[str]) -> None:
    assert paths.split("/".join(names)) == tuple(names)


@pytest.mark.parametrize(
    "path",
    ["", "/a", "a//b", "a/", "./a", "a/../b", "..", "a\\b", "a\0b", "a\nb", "a\x1bb", "a\x85b", "\ud800",
     "/".join("abcdefghi"), "x" * 256, "/".join(["y" * 200] * 6)],
)  # fmt: skip
def test_refused(path: str) -> None:
    with pytest.raises(FleetError) as caught:
        paths.split(path)
    assert caught.value.reason == "PATH_INVALID"


@pytest.mark.parametrize(
    "pair", [("a", "a"), ("a", "A"), ("x/a", "X/b"), ("a", "a/b"), ("a/b", "a"), ("é", "e\u0301"), ("ß", "SS")]
)
def test_collisions(pair: tuple[str, str]) -> None:
    with pytest.raises(FleetError):
        paths.check_distinct(pair)


def test_distinct() -> None:
    assert paths.check_distinct(["x/a", "x/b", "y"]) == [("x", "a"), ("x", "b"), ("y",)]


@pytest.mark.parametrize(
    "path", [".env", "a/.env.local", ".ssh/config", ".git/config", "x/server.pem", "ID_RSA", "Credentials.json"]
)
def test_secret_looking(path: str) -> None:
    assert paths.looks_secret(path)


@pytest.mark.parametrize("path", ["environment.txt", "keys.txt", "a/report.csv", "git/notes.md", "monkey.txt"])
def test_not_secret_looking(path: str) -> None:
    assert not paths.looks_secret(path)
