"""Ids, text and the request context."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.clock import SystemClock
from services.common.errors import FleetError
from services.common.ids import IdSource, new_id
from services.common.request_context import LOOPBACK, RequestContext, current, current_principal, use
from services.common.text import clean, is_utf8, require_utf8

ANY_TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from("\ud800\udfff\ud83d\ude00"))


def test_ids_ascend_and_have_one_form() -> None:
    ids = [new_id() for _ in range(5_000)]
    assert ids == sorted(set(ids))
    assert all(re.fullmatch(r"[0-9a-z]{26}", made) for made in ids)


def test_ids_ascend_when_the_wall_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    source = IdSource()
    first = source.new()
    monkeypatch.setattr("services.common.ids.time.time_ns", lambda: 1_000_000)
    assert first < source.new() < source.new()


def test_ids_are_unique_across_threads() -> None:
    source = IdSource()
    made: list[list[str]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda out=out: out.extend(source.new() for _ in range(500))) for out in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for out in made for one in out}) == 2_000


@given(ANY_TEXT)
def test_clean_text_can_be_written(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    if is_utf8(text):
        assert cleaned is text


@given(ANY_TEXT, ANY_TEXT)
def test_clean_keeps_what_is_whole(before: str, after: str) -> None:
    assert "word" in clean(f"{before}word{after}")


def test_clean_joins_split_characters() -> None:
    assert clean("a\ud83d\ude00b") == "a\U0001f600b"
    assert clean("\ude00\ud83d") == "\ufffd\ufffd"


def test_text_that_must_be_whole() -> None:
    assert require_utf8("é", "text") == "é"
    with pytest.raises(FleetError) as error:
        require_utf8("\ud800", "text")
    assert error.value.reason == "INVALID_ARGUMENT"
    assert [violation.field for violation in error.value.violations] == ["text"]
    str(error.value).encode()


def test_context_is_only_there_inside() -> None:
    with pytest.raises(FleetError, match="UNAUTHENTICATED"):
        current_principal()
    with use(RequestContext("r1", LOOPBACK)):
        assert current().request_id == "r1"
        assert current_principal() is LOOPBACK
        with use(RequestContext("r2")), pytest.raises(FleetError):
            current_principal()
        assert current().request_id == "r1"
    assert current().request_id != "r1"


async def test_tasks_inherit_the_context() -> None:
    async def read() -> str:
        return current().request_id

    with use(RequestContext("r1")):
        task = asyncio.create_task(read())
    assert await task == "r1"


def test_system_clock() -> None:
    clock = SystemClock()
    assert clock.now().utcoffset() is not None
    assert clock.monotonic() <= clock.monotonic()
