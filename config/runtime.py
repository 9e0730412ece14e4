"""The `[runtime]` section: Turns, Session ownership and resident runtimes."""

from __future__ import annotations

from config.section import Count, Seconds, Section


class Runtime(Section):
    """How long things live and how many there may be.

    Attributes:
        turn_timeout_seconds: wall clock of a Turn from its start.
        lease_seconds: how long a lease or an ownership lasts without renewal.
        heartbeat_seconds: how often it is renewed.
        max_resident_sessions: Sessions whose RLM and interpreter are kept between Turns.
        session_idle_seconds: how long an idle Session keeps them.
        max_concurrent_turns: Turns that one replica runs at a time.
        queue_seconds: how long a Turn or a lease waits for its place before it is refused.
    """

    turn_timeout_seconds: Seconds
    lease_seconds: Seconds
    heartbeat_seconds: Seconds
    max_resident_sessions: Count
    session_idle_seconds: Seconds
    max_concurrent_turns: Count
    queue_seconds: Seconds
