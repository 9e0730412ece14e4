"""`fleet up`: every service in one process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cli import options
from cli.run_file import announced, running_addresses
from config.policy import Policy
from config.problem import ConfigError, Problem
from services.common.process import announce, set_up_logs, until_signal, usage_errors
from services.common.version_guard import require_dspy

if TYPE_CHECKING:
    from cli.stack import Progress, Stack


def up(
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of the gateway; 0 for a free one.")] = None,
    data_root: options.DataRoot = None,
    as_json: options.AsJson = False,
) -> None:
    """Run all services in this process, over the same sockets as separate processes would use."""
    pairs = list(overrides or []) + ([f"server.ports.gateway={port}"] if port is not None else [])
    require_dspy()
    with usage_errors():
        policy = options.policy_of(profile, config, pairs, data_root)
        _refuse_a_second(policy)
        set_up_logs(policy, policy.server.log_level)
        asyncio.run(_run(policy, as_json))


def _refuse_a_second(policy: Policy) -> None:
    running = running_addresses(policy.storage.root)
    if running is not None:
        where = running.get("gateway", running["session"])
        raise ConfigError([Problem("storage.data_root", f"`fleet up` runs on it already, at {where}")])


async def _run(policy: Policy, as_json: bool) -> None:
    from cli.stack import running_stack

    console = Console(stderr=True)
    progress: Progress = _quiet if as_json else lambda text: console.print(f"… {text}", style="dim")
    async with running_stack(policy, gateway=True, progress=progress) as stack:
        with announced(policy.storage.root, stack.addresses):
            _ready(stack, console, as_json)
            await until_signal()
            progress("draining")


def _ready(stack: Stack, console: Console, as_json: bool) -> None:
    if as_json:
        announce({"event": "ready", "profile": stack.policy.profile, **stack.addresses})
        return
    base = stack.addresses["gateway"]
    console.print(f"[green]Fleet RLM is up[/green] · profile {stack.policy.profile}")
    console.print(
        f"  console   {base}/console\n  REST      {base}/v1\n  schema    {base}/openapi.json", highlight=False
    )
    for name, address in stack.addresses.items():
        if name != "gateway":
            console.print(f"  {name:<9} {address}", highlight=False)
    console.print("Ctrl-C drains and stops.", style="dim")


def _quiet(_text: str) -> None:
    """Standard output belongs to the ready line, standard error to the log."""
