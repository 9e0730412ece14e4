"""A Turn's time: when it ends at the latest, and when new work ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from services.common.clock import Clock

WRAP_UP_SHARE = 0.2
"""The wrap-up time takes at most this share of a Turn's time, so that a short Turn can still work."""


@dataclass(frozen=True)
class TurnWindow:
    """The moments that bound a Turn, on the monotonic clock and on the wall clock.

    Attributes:
        deadline: end of the Turn, monotonic seconds.
        work_deadline: end of new work; what remains is the wrap-up time.
        deadline_time: the end in UTC.
        work_deadline_time: the end of new work in UTC.
    """

    deadline: float
    work_deadline: float
    deadline_time: datetime
    work_deadline_time: datetime


def turn_window(deadline: float, seconds: float, wrap_up_seconds: float, clock: Clock) -> TurnWindow:
    """The moments of a Turn that ends at monotonic second `deadline` and has `seconds` in all.

    Args:
        deadline: end of the Turn, monotonic seconds.
        seconds: the Turn's whole time.
        wrap_up_seconds: the policy's time for the answer.
        clock: relates both clocks.
    """
    wrap_up = min(wrap_up_seconds, seconds * WRAP_UP_SHARE)
    left = deadline - clock.monotonic()
    now = clock.now()
    return TurnWindow(
        deadline=deadline,
        work_deadline=deadline - wrap_up,
        deadline_time=now + timedelta(seconds=left),
        work_deadline_time=now + timedelta(seconds=left - wrap_up),
    )
