"""Fixtures of the session service's integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.common import migrations
from services.common.database import Database
from services.session.store import Store
from tests.integration.session.rig import Client, Replica, make_policy, serving


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """A migrated, empty store; once on SQLite and once on PostgreSQL."""
    await migrations.upgrade("session", database_url)
    database = Database(database_url)
    yield Store(database)
    await database.close()


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    async with serving(make_policy(tmp_path)) as made:
        yield made


@pytest.fixture
def client(replica: Replica) -> Client:
    return replica.client
