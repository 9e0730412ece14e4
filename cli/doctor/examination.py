"""All checks, one after another, on services that run already or are started for them."""

from __future__ import annotations

import json
import os
import sys
from functools import partial

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.doctor.check import Check, Result, run_check
from cli.doctor.models import model
from cli.doctor.recursion import recursion
from cli.doctor.sandbox import sandbox
from cli.doctor.storage import blobs, databases
from cli.run_file import running_addresses
from cli.stack import on_free_ports, running_stack
from config.policy import Policy
from services.common.version_guard import REQUIRED_DSPY


async def examine(policy: Policy, as_json: bool) -> int:
    """Run every check and print its result; returns how many failed."""
    console = Console(file=sys.stdout)
    addresses = running_addresses(policy.storage.root)
    if addresses is not None:
        return await _run(_checks(policy, addresses), console, as_json)
    with console.status("starting the services") as status:
        async with running_stack(on_free_ports(policy), gateway=False, progress=status.update) as stack:
            status.stop()
            return await _run(_checks(stack.policy, stack.addresses), console, as_json)


def _checks(policy: Policy, addresses: dict[str, str]) -> list[Check]:
    return [
        Check("policy", partial(_found, f"profile {policy.profile}"), ""),
        Check("DSPy", partial(_found, f"version {REQUIRED_DSPY}"), ""),
        Check("databases", partial(databases, policy), "run: fleet db upgrade"),
        Check("blob store", partial(blobs, policy), "check storage.blob_url and its permissions"),
        Check("Root model", partial(model, policy.llm.root, os.environ), "check llm.root: base URL, key and model"),
        Check("Sub model", partial(model, policy.llm.sub, os.environ), "check llm.sub: base URL, key and model"),
        Check("sandbox", partial(sandbox, addresses["sandbox"]), "see docs/sandboxes.md on isolation"),
        *_recursion(policy, addresses),
        Check("tracing", partial(_found, _tracing(policy)), ""),
    ]


def _recursion(policy: Policy, addresses: dict[str, str]) -> list[Check]:
    if not policy.rlm.recursion_enabled:
        return [Check("recursion", partial(_found, "off by policy"), "")]
    run = partial(recursion, addresses["sandbox"], addresses["recursion"])
    return [Check("recursion", run, "check the sandbox and the models above")]


async def _run(checks: list[Check], console: Console, as_json: bool) -> int:
    failed = 0
    for check in checks:
        result = await run_check(check)
        failed += not result.ok
        if as_json:
            typer.echo(json.dumps(result.as_json()))
        else:
            _print(console, result)
    return failed


def _print(console: Console, result: Result) -> None:
    line = Table.grid(padding=(0, 1))
    for _ in range(3):
        line.add_column(no_wrap=True)
    mark = Text("✓", style="green") if result.ok else Text("✗", style="red")
    detail = Text(result.detail)
    if result.remedy:
        detail.append(f"\n→ {result.remedy}", style="yellow")
    line.add_row(mark, f"{result.name:<11}", Text(f"{result.ms:6.0f} ms", style="dim"), detail)
    console.print(line)


async def _found(detail: str) -> str:
    return detail


def _tracing(policy: Policy) -> str:
    return "off by policy" if not policy.mlflow.tracing_enabled else "on in policy; this release exports no traces"
