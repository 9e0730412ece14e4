"""The step clock: wall time without host calls, processor time with them."""

import pytest

from services.sandbox.agent.clock import StepClock


def test_wall_time_is_charged_without_host_calls() -> None:
    clock = StepClock(0.0, 0.0, 10.0)
    clock.advance(4.0, 0.1)
    assert clock.remaining() == pytest.approx(6.0)
    assert clock.host_wait == 0


def test_waiting_for_the_host_is_free() -> None:
    clock = StepClock(0.0, 0.0, 1.0)
    clock.call_opened(0.5, 0.5)
    clock.call_closed(100.5, 0.5)
    clock.advance(100.7, 0.7)
    assert clock.remaining() == pytest.approx(0.3)
    assert clock.host_wait == pytest.approx(100.0)


def test_a_busy_thread_beside_a_host_call_is_charged() -> None:
    clock = StepClock(0.0, 0.0, 1.0)
    clock.call_opened(0.0, 0.0)
    clock.advance(2.0, 2.0)
    assert (clock.remaining() or 0) <= 0


def test_several_calls_are_counted() -> None:
    clock = StepClock(0.0, 0.0, 5.0)
    clock.call_opened(0.0, 0.0)
    clock.call_opened(0.0, 0.0)
    clock.call_closed(3.0, 0.0)
    clock.call_closed(4.0, 0.0)
    clock.advance(5.0, 0.0)
    assert clock.remaining() == pytest.approx(4.0)


def test_no_limit() -> None:
    clock = StepClock(0.0, 0.0, 0.0)
    clock.advance(1e9, 0.0)
    assert clock.remaining() is None
