"""`fleet db`: the services' databases."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from cli import options
from config.loader import load
from config.policy import Policy
from config.problem import ConfigError
from services.common.process import usage_errors
from services.common.version_guard import require_dspy


class Owner(StrEnum):
    """The services that have a database, as an argument."""

    SESSION = "session"
    SANDBOX = "sandbox"
    RECURSION = "recursion"


SERVICES = tuple(owner.value for owner in Owner)
"""Services that have a database."""

Which = Annotated[list[Owner] | None, typer.Argument(help="Whose database; every service's when none is named.")]

app = typer.Typer(no_args_is_help=True, help="Migrate or check the databases.")


@app.command()
def upgrade(
    services: Which = None,
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    data_root: options.DataRoot = None,
) -> None:
    """Bring the services' databases to the newest revision."""
    require_dspy()
    with usage_errors():
        policy = load(profile, path=config, overrides=options.pairs(overrides, data_root), components=())
        asyncio.run(_upgrade(policy, _named(services)))


@app.command()
def check(
    services: Which = None,
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    data_root: options.DataRoot = None,
) -> None:
    """Say whether the databases are at the newest revision; exits with 1 if one is not."""
    require_dspy()
    with usage_errors():
        policy = load(profile, path=config, overrides=options.pairs(overrides, data_root), components=())
        behind = asyncio.run(_check(policy, _named(services)))
    raise typer.Exit(1 if behind else 0)


def _named(services: list[Owner] | None) -> Sequence[str]:
    return [service.value for service in services] if services else SERVICES


async def _upgrade(policy: Policy, services: Sequence[str]) -> None:
    # Imported when it is needed, so that --help and argument errors are instant.
    from services.common.database import database_url
    from services.common.migrations import upgrade as upgrade_database

    policy.storage.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for service in services:
        await upgrade_database(service, database_url(policy, service))
        typer.echo(f"{service}: at the newest revision")


async def _check(policy: Policy, services: Sequence[str]) -> int:
    from services.common.database import database_url
    from services.common.migrations import check as check_revision

    behind = 0
    for service in services:
        try:
            await check_revision(service, database_url(policy, service))
        except ConfigError as error:
            behind += 1
            typer.echo(f"{service}: {'; '.join(problem.message for problem in error.problems)}")
        else:
            typer.echo(f"{service}: at the newest revision")
    return behind
