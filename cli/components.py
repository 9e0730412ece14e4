"""The parts of a deployment by name, each imported only when it is run."""

from __future__ import annotations

import importlib

from config.policy import Policy
from config.server import ComponentName
from services.common.process import Build, Service

_MODULES: dict[ComponentName, str] = {
    "sandbox": "services.sandbox.main",
    "recursion": "services.recursion.main",
    "offline": "services.offline.main",
    "session": "services.session.main",
    "gateway": "gateway.main",
}


def builder(component: ComponentName) -> Build:
    """The composition root of `component`."""
    build: Build = importlib.import_module(_MODULES[component]).build_service
    return build


def needed(policy: Policy, *, gateway: bool) -> tuple[ComponentName, ...]:
    """The parts that must run to answer a Turn, each after those that it calls."""
    offline: tuple[ComponentName, ...] = ("offline",) if policy.uses_offline_model else ()
    edge: tuple[ComponentName, ...] = ("gateway",) if gateway else ()
    return (*offline, "sandbox", "recursion", "session", *edge)


def build(component: ComponentName, policy: Policy) -> Service:
    """One part, not yet started."""
    return builder(component)(policy)
