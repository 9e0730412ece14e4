"""Migrations on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, text

from config.loader import load
from config.problem import ConfigError
from services.common.database import Database
from services.common.migrations import check, differences, ensure, upgrade

FIRST = """
import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    op.create_table("thing", sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(10)))
"""
SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.execute("INSERT INTO thing (id, name) VALUES (1, 'a')")
    op.add_column("thing", sa.Column("size", sa.Integer))
"""
BROKEN = """
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade():
    op.execute("INSERT INTO thing (id, name) VALUES (2, 'b')")
    op.execute("INSERT INTO nothing VALUES (1)")
"""


@pytest.fixture
def services(tmp_path: Path) -> Path:
    folder = tmp_path / "services" / "things" / "migrations" / "versions"
    folder.mkdir(parents=True)
    (folder / "0001_first.py").write_text(FIRST)
    return tmp_path / "services"


def add(services: Path, name: str, source: str) -> None:
    (services / "things" / "migrations" / "versions" / name).write_text(source)


async def names(url: str) -> list[str]:
    database = Database(url)
    async with database.reading() as session:
        found = [
            row[0] for row in await (await session.connection()).execute(text("SELECT name FROM thing ORDER BY id"))
        ]
    await database.close()
    return found


async def test_upgrade_then_check(services: Path, database_url: str) -> None:
    with pytest.raises(ConfigError, match="fleet db upgrade things"):
        await check("things", database_url, services)
    await upgrade("things", database_url, services)
    await check("things", database_url, services)
    add(services, "0002_second.py", SECOND)
    with pytest.raises(ConfigError, match="has 0001 of its migrations"):
        await check("things", database_url, services)
    await upgrade("things", database_url, services)
    await upgrade("things", database_url, services)
    assert await names(database_url) == ["a"]


async def test_replicas_that_race(services: Path, database_url: str) -> None:
    add(services, "0002_second.py", SECOND)
    await asyncio.gather(*(upgrade("things", database_url, services) for _ in range(3)))
    assert await names(database_url) == ["a"]


async def test_a_failed_migration_leaves_the_former_state(services: Path, database_url: str) -> None:
    add(services, "0002_second.py", SECOND)
    await upgrade("things", database_url, services)
    add(services, "0003_broken.py", BROKEN)
    with pytest.raises(Exception, match="nothing"):
        await upgrade("things", database_url, services)
    assert await names(database_url) == ["a"]
    with pytest.raises(ConfigError, match="has 0002"):
        await check("things", database_url, services)


async def test_a_database_of_a_later_release_is_refused(services: Path, database_url: str) -> None:
    add(services, "0002_second.py", SECOND)
    await upgrade("things", database_url, services)
    (services / "things" / "migrations" / "versions" / "0002_second.py").unlink()
    with pytest.raises(ConfigError, match="has 0002"):
        await check("things", database_url, services)


async def test_differences_between_tables_and_models(services: Path, database_url: str) -> None:
    await upgrade("things", database_url, services)
    metadata = MetaData()
    Table("thing", metadata, Column("id", Integer, primary_key=True), Column("name", String(10)))
    assert await differences("things", database_url, metadata) == []
    other = MetaData()
    Table("thing", other, Column("id", Integer, primary_key=True), Column("title", String(10)))
    assert len(await differences("things", database_url, other)) == 2


async def test_a_service_without_migrations(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        await upgrade("nothing", f"sqlite:///{tmp_path / 'a.db'}", tmp_path)


async def test_ensure_refuses_where_it_may_not_migrate(services: Path, tmp_path: Path) -> None:
    overrides = [f"storage.data_root={tmp_path / 'root'}"]
    automatic = load(profile="test", env={}, overrides=overrides)
    manual = load(profile="test", env={}, overrides=[*overrides, "database.auto_upgrade=false"])
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with pytest.raises(ConfigError):
        await ensure(manual, "things", url, services)
    assert await ensure(automatic, "things", url, services) == url
    assert await ensure(manual, "things", url, services) == url
