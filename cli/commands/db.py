"""`fleet db`: the services' databases."""

from __future__ import annotations

import asyncio

import typer

from cli import options
from config.loader import load
from config.policy import Policy
from services.common.errors import FleetError
from services.common.process import usage_errors
from services.common.version_guard import require_dspy

SERVICES = ("session", "sandbox", "recursion")
"""Services that have a database."""

app = typer.Typer(no_args_is_help=True, help="Migrate or check the databases.")


@app.command()
def upgrade(
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    data_root: options.DataRoot = None,
) -> None:
    """Bring every service's database to the newest revision."""
    require_dspy()
    with usage_errors():
        policy = load(profile, path=config, overrides=options.pairs(overrides, data_root), components=())
        asyncio.run(_upgrade(policy))


@app.command()
def check(
    profile: options.Profile = None,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    data_root: options.DataRoot = None,
) -> None:
    """Say whether every database is at the newest revision; exits with 1 if one is not."""
    require_dspy()
    with usage_errors():
        policy = load(profile, path=config, overrides=options.pairs(overrides, data_root), components=())
        behind = asyncio.run(_check(policy))
    raise typer.Exit(1 if behind else 0)


async def _upgrade(policy: Policy) -> None:
    # Imported when it is needed, so that --help and argument errors are instant.
    from services.common.database import database_url
    from services.common.migrations import upgrade as upgrade_database

    policy.storage.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for service in SERVICES:
        await upgrade_database(service, database_url(policy, service))
        typer.echo(f"{service}: at the newest revision")


async def _check(policy: Policy) -> int:
    from services.common.database import database_url
    from services.common.migrations import check as check_revision

    behind = 0
    for service in SERVICES:
        try:
            await check_revision(service, database_url(policy, service))
        except FleetError as error:
            behind += 1
            typer.echo(f"{service}: {error.message}")
        else:
            typer.echo(f"{service}: at the newest revision")
    return behind
