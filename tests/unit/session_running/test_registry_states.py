"""The registry under every order of Turns, losses, time and eviction."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.common.errors import FleetError
from services.session.running.residents.registry import Checkout, RegistryLimits, ResidentRegistry
from services.session.running.residents.resident import Health, SessionKey
from tests.fakes.resident_runtime import FakeRuntime, ManualClock

KEYS = [SessionKey("w", name) for name in "abcd"]
LIMITS = RegistryLimits(max_resident=2, idle_seconds=60, heartbeat_seconds=10, lease_seconds=30)


class RegistryMachine(RuleBasedStateMachine):
    """Turns start and end on four Sessions with two places."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.registry: ResidentRegistry[FakeRuntime] = ResidentRegistry(LIMITS, self.clock)
        self.running: dict[SessionKey, Checkout[FakeRuntime]] = {}
        self.reusable: dict[SessionKey, tuple[FakeRuntime, str]] = {}
        self.made: list[tuple[SessionKey, FakeRuntime]] = []

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            assert self._do(self.registry.close(5)) or self.running
            self.runner.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def settle() -> Any:
            result = await work
            for _ in range(20):
                await asyncio.sleep(0)
            return result

        return self.runner.run(settle())

    @rule(key=st.sampled_from(KEYS), fingerprint=st.sampled_from(["f1", "f2"]))
    def start(self, key: SessionKey, fingerprint: str) -> None:
        if key in self.running:
            return

        def make() -> FakeRuntime:
            assert not any(runtime.live for owner, runtime in self.made if owner == key)
            self.made.append((key, FakeRuntime()))
            return self.made[-1][1]

        former = self.reusable.pop(key, None)
        checkout = self._do(self.registry.checkout(key, "t", fingerprint, make))
        runtime = checkout.resident.runtime
        if checkout.reused:
            assert former == (runtime, fingerprint)
            assert runtime.renewal is None
            assert checkout.rotation_reason == ""
        elif former is not None and former[0].live:
            raise AssertionError("a live former runtime was replaced without being closed")
        assert checkout.resident.health is Health.TAINTED
        self.running[key] = checkout

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.running, key=str)))
        checkout = self.running.pop(key)

        async def act() -> None:
            self.registry.commit(checkout)

        self._do(act())
        self.reusable[key] = (checkout.resident.runtime, checkout.resident.fingerprint)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.running, key=str)))
        checkout = self.running.pop(key)

        async def act() -> None:
            self.registry.abandon(checkout, "it failed")

        self._do(act())
        assert checkout.resident.health is Health.CLOSED
        assert not checkout.resident.runtime.live

    @precondition(lambda self: self.registry.residents())
    @rule(data=st.data())
    def lose_lease(self, data: st.DataObject) -> None:
        resident = data.draw(st.sampled_from(self.registry.residents()))
        resident.runtime.renewal = FleetError("LEASE_LOST", "revoked")
        self._do(self.registry.beat())
        assert resident.lost.is_set()
        assert resident.health is (Health.TAINTED if resident.running else Health.CLOSED)

    @rule(seconds=st.integers(1, 90))
    def let_time_pass(self, seconds: int) -> None:
        self.clock.seconds += seconds

        async def act() -> None:
            self.registry.sweep()

        self._do(act())
        for resident in self.registry.residents():
            assert resident.running or self.clock.seconds - resident.last_used < LIMITS.idle_seconds

    @invariant()
    def running_ones_are_tainted_and_alive(self) -> None:
        for checkout in getattr(self, "running", {}).values():
            assert checkout.resident.health is Health.TAINTED
            assert checkout.resident.runtime.closed == 0

    @invariant()
    def idle_ones_fit(self) -> None:
        if hasattr(self, "registry"):
            assert len(self.registry.residents()) <= max(LIMITS.max_resident, len(self.running))

    @invariant()
    def one_runtime_a_session(self) -> None:
        for key in KEYS:
            assert sum(runtime.live for owner, runtime in getattr(self, "made", []) if owner == key) <= 1


RegistryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestRegistryStates = RegistryMachine.TestCase
