"""Fixtures of the recursion service's integration tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from services.common import migrations
from services.common.database import Database, async_url
from services.common.ids import new_id
from tests.integration.recursion.rig import Replica, make_policy, serving
from tests.integration.recursion.stores import Stores


@pytest.fixture
async def stores(database_url: str) -> AsyncIterator[Stores]:
    """A migrated, empty database; once on SQLite and once on PostgreSQL."""
    await migrations.upgrade("recursion", database_url)
    database = Database(database_url)
    made = Stores(database)
    yield made
    await made.transactions.close()
    await database.close()


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    async with serving(make_policy(tmp_path)) as made:
        yield made


@pytest.fixture
async def any_replica(tmp_path: Path, database_url: str) -> AsyncIterator[Replica]:
    """A replica on each kind of database."""
    async with serving(make_policy(tmp_path), env={"FLEET_RECURSION_DATABASE_URL": database_url}) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def loop_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[asyncio.AbstractEventLoop, Stores]]:
    """A loop and stores that live through all examples of a property."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'property.db'}"
    else:
        url = request.getfixturevalue("postgres_url")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(migrations.upgrade("recursion", url))
    database = Database(url)
    made = Stores(database)
    yield loop, made
    loop.run_until_complete(made.transactions.close())
    loop.run_until_complete(database.close())
    loop.close()


@pytest.fixture
async def postgres_database(postgres_url: str) -> AsyncIterator[str]:
    """The URL of an empty PostgreSQL database, for what only several replicas can show."""
    server, name = async_url(postgres_url), f"test_{new_id()}"
    engine = create_async_engine(server, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name}"))
    yield server.set(database=name).render_as_string(hide_password=False)
    async with engine.connect() as connection:
        await connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    await engine.dispose()
