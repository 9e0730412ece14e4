"""Brings a service's database to the schema of this release, or says that it isn't there.

A service's migrations are Alembic revisions in `services/<service>/migrations/versions`; nothing else is needed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, text
from sqlalchemy.engine import Connection

from config.policy import Policy
from config.problem import ConfigError, Problem
from services.common.database import Database, database_url

SERVICES = Path(__file__).resolve().parent.parent
"""The folder that has one folder a service."""


async def upgrade(service: str, url: str, services: Path = SERVICES) -> None:
    """Migrate the database at `url` to head in one transaction; replicas that race wait for each other.

    Raises:
        FileNotFoundError: there is no such service with migrations.
        sqlalchemy.exc.SQLAlchemyError: the database refused.
    """
    scripts = _scripts(services / service / "migrations")
    database = Database(url)
    try:
        async with database.engine.begin() as connection:
            if not database.is_sqlite:
                await connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": service})
            await connection.run_sync(_upgrade, scripts, service)
    finally:
        await database.close()


async def check(service: str, url: str, services: Path = SERVICES) -> None:
    """Return when the database at `url` is at head.

    Raises:
        ConfigError: it is behind, or at a revision that this release doesn't know; the message says what to run.
        FileNotFoundError: there is no such service with migrations.
    """
    scripts = _scripts(services / service / "migrations")
    database = Database(url)
    try:
        async with database.engine.connect() as connection:
            found = await connection.run_sync(_revisions, service)
    finally:
        await database.close()
    if set(found) != set(scripts.get_heads()):
        state = ", ".join(found) or "nothing"
        message = f"the {service} database has {state} of its migrations; run: fleet db upgrade {service}"
        raise ConfigError([Problem(f"database.{service}_url_env", message)])


async def ensure(policy: Policy, service: str, url: str | None = None, services: Path = SERVICES) -> str:
    """Migrate at start where `database.auto_upgrade` allows it, else check.

    Returns:
        The URL of the service's database.

    Raises:
        ConfigError: it is behind head and may not be migrated here.
    """
    target = url or database_url(policy, service)
    if policy.database.auto_upgrade:
        await upgrade(service, target, services)
    else:
        await check(service, target, services)
    return target


async def differences(service: str, url: str, metadata: MetaData) -> list[Any]:
    """How the migrated database differs from `metadata`, in Alembic's terms; empty when they agree."""
    database = Database(url)
    try:
        async with database.engine.connect() as connection:
            found: list[Any] = await connection.run_sync(_differences, service, metadata)
            return found
    finally:
        await database.close()


def version_table(service: str) -> str:
    """The table that keeps the revision; one a service, so that several may share a database."""
    return f"{service}_alembic_version"


def _scripts(folder: Path) -> ScriptDirectory:
    if not (folder / "versions").is_dir():
        raise FileNotFoundError(f"service {folder.parent.name!r} has no migrations")
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)


def _upgrade(connection: Connection, scripts: ScriptDirectory, service: str) -> None:
    def steps(revision: Any, _context: MigrationContext) -> Any:
        return scripts._upgrade_revs("head", revision)

    with EnvironmentContext(Config(), scripts, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection, version_table=version_table(service), transactional_ddl=True)
        environment.run_migrations()


def _revisions(connection: Connection, service: str) -> Sequence[str]:
    context = MigrationContext.configure(connection, opts={"version_table": version_table(service)})
    revisions: Sequence[str] = context.get_current_heads()
    return revisions


def _differences(connection: Connection, service: str, metadata: MetaData) -> list[Any]:
    def ours(item: Any, name: str | None, kind: str, reflected: bool, _other: Any) -> bool:
        return not (kind == "table" and reflected and name not in metadata.tables)

    opts = {"version_table": version_table(service), "include_object": ours, "compare_type": True}
    found: list[Any] = compare_metadata(MigrationContext.configure(connection, opts=opts), metadata)
    return found
