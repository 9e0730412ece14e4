"""Fingerprints, limits, pages and places."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.loader import load
from config.policy import Policy
from services.common.errors import FleetError
from services.session import pages
from services.session.turns.capacity import Capacity
from services.session.turns.fingerprints import fingerprint
from services.session.turns.limits import limits_of, policy_limits, seconds_of
from services.session.turns.spending import DIMENSIONS, Limits
from services.session.turns.turn import SkillSelection, TurnInput

GIVEN = TurnInput("text", ("a", "b"), (SkillSelection("s", "1"),), Limits(iterations=3), 5.0)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load(profile="test", env={}, components=())


def test_every_field_of_the_input_is_in_its_fingerprint() -> None:
    others = [
        replace(GIVEN, text="text "),
        replace(GIVEN, attachments=("b", "a")),
        replace(GIVEN, attachments=()),
        replace(GIVEN, skills=(SkillSelection("s", "2"),)),
        replace(GIVEN, skills=()),
        replace(GIVEN, timeout_seconds=None),
        replace(GIVEN, timeout_seconds=5.5),
        *(replace(GIVEN, limits=Limits(**{name: 7})) for name in DIMENSIONS),
    ]
    marks = {fingerprint(each) for each in [GIVEN, *others]}
    assert len(marks) == len(others) + 1
    assert fingerprint(replace(GIVEN)) == fingerprint(GIVEN)


def test_limits_are_the_policys_lowered(policy: Policy) -> None:
    assert limits_of(policy, TurnInput("?")) == policy_limits(policy)
    lowered = limits_of(policy, TurnInput("?", limits=Limits(iterations=2, seconds=60), timeout_seconds=1.5))
    assert (lowered.iterations, lowered.seconds) == (2, 2)
    assert lowered.llm_calls == policy.rlm.max_llm_calls
    assert seconds_of(policy, TurnInput("?", timeout_seconds=1.5)) == 1.5
    assert seconds_of(policy, TurnInput("?", limits=Limits(seconds=3))) == 3


def test_every_limit_that_is_too_large_is_named(policy: Policy) -> None:
    asked = TurnInput("?", limits=Limits(iterations=10**6, output_bytes=10**12), timeout_seconds=10**6)
    with pytest.raises(FleetError) as caught:
        limits_of(policy, asked)
    named = {violation.field: violation.description for violation in caught.value.violations}
    assert set(named) == {"budget.iterations", "budget.output_bytes", "timeout"}
    assert str(policy.rlm.max_iters) in named["budget.iterations"]


def test_without_recursion_there_are_no_children() -> None:
    policy = load(profile="test", env={}, overrides=["rlm.recursion_enabled=false"], components=())
    assert policy_limits(policy).child_calls == 0
    with pytest.raises(FleetError, match=r"budget\.child_calls must be at most 0"):
        limits_of(policy, TurnInput("?", limits=Limits(child_calls=1)))


TIMES = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC))


@given(TIMES, st.text("0123456789abcdefghjkmnpqrstvwxyz", max_size=64), st.text(max_size=20))
def test_a_page_token_brings_its_key_back_to_its_own_list(time: datetime, key: str, scope: str) -> None:
    token = pages.encode(scope, (time, key))
    assert pages.decode(scope, token) == (time, key)
    with pytest.raises(FleetError, match="PAGE_TOKEN_INVALID"):
        pages.decode(scope + "x", token)


@given(st.text(min_size=1, max_size=60) | st.binary(max_size=40).map(lambda raw: raw.hex()))
def test_no_other_text_is_a_page_token(token: str) -> None:
    if token:
        with pytest.raises(FleetError, match="PAGE_TOKEN_INVALID"):
            pages.decode("list", token)


@given(st.integers(0, 500), st.integers(0, 30))
def test_the_further_item_tells_that_there_is_a_next_page(asked: int, found: int) -> None:
    size = pages.page_size(asked)
    assert size == (min(asked, 200) if asked else 50)
    start = datetime(2030, 1, 1, tzinfo=UTC)
    page = pages.page_of("l", range(found), 10, lambda n: (start + timedelta(seconds=n), str(n)))
    assert page.items == tuple(range(min(found, 10)))
    assert bool(page.next_token) is (found > 10)


async def test_places_are_given_in_the_order_of_asking() -> None:
    capacity = Capacity(1)
    await capacity.acquire(0)
    order: list[int] = []

    async def take(n: int) -> None:
        await capacity.acquire(5)
        order.append(n)
        capacity.release()

    waiting = [asyncio.create_task(take(n)) for n in range(4)]
    with pytest.raises(FleetError) as caught:
        await capacity.acquire(0.01)
    assert caught.value.retry_after
    waiting[1].cancel()
    capacity.release()
    await asyncio.wait(waiting)
    assert order == [0, 2, 3]
    await capacity.acquire(0)
