"""All services in one process, over the same sockets as separate processes would use."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from cli.components import build, needed
from config.policy import Policy
from config.server import ComponentName
from services.common.process import running

Progress = Callable[[str], None]
"""Told what is being started."""

STARTING: dict[ComponentName, str] = {
    "sandbox": "starting the sandbox broker",
    "recursion": "starting the recursion service",
    "offline": "starting the offline model",
    "session": "starting the session service (imports DSPy, a few seconds)",
    "gateway": "starting the gateway",
}


@dataclass(frozen=True)
class Stack:
    """Running services.

    Attributes:
        policy: the policy with the addresses that were bound.
        addresses: address by service; the gateway's and the offline model's are URLs.
    """

    policy: Policy
    addresses: dict[str, str]


@contextlib.asynccontextmanager
async def running_stack(policy: Policy, *, gateway: bool, progress: Progress) -> AsyncIterator[Stack]:
    """Start every service that `policy` needs, in the order of their calls; stop them in reverse.

    Raises:
        ConfigError: an address can't be bound.
        FleetError: a service can't start.
    """
    addresses: dict[str, str] = {}
    async with contextlib.AsyncExitStack() as stack:
        for component in needed(policy, gateway=gateway):
            progress(STARTING[component])
            service = build(component, policy)
            address = await stack.enter_async_context(running(service, policy.server.drain_seconds))
            addresses[component] = address
            if component != "gateway":
                policy = policy.with_addresses({component: _host_port(address)})
        progress("ready")
        yield Stack(policy, addresses)


def on_free_ports(policy: Policy) -> Policy:
    """The same policy with every service on a port that the system chooses."""
    host = policy.server.host
    shown = f"[{host}]" if ":" in host else host
    return policy.with_addresses(dict.fromkeys(("sandbox", "recursion", "offline", "session"), f"{shown}:0"))


def _host_port(address: str) -> str:
    return address.removeprefix("http://").partition("/")[0]
