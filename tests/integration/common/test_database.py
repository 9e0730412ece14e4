"""Transactions on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError

from config.problem import ConfigError
from services.common.database import Database
from services.common.errors import FleetError

SCHEMA = (
    "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
    "CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL REFERENCES parent (id))",
    "CREATE TABLE budget (id INTEGER PRIMARY KEY, used INTEGER NOT NULL, CHECK (used <= 20))",
)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    made = Database(database_url)
    async with made.transaction() as session:
        for statement in SCHEMA:
            await (await session.connection()).execute(text(statement))
        await (await session.connection()).execute(text("INSERT INTO budget VALUES (1, 0)"))
    yield made
    await made.close()


async def used(database: Database) -> int:
    async with database.reading() as session:
        return int((await (await session.connection()).execute(text("SELECT used FROM budget"))).scalar_one())


async def test_commits_at_the_end_and_rolls_back_on_error(database: Database) -> None:
    async with database.transaction() as session:
        await (await session.connection()).execute(text("UPDATE budget SET used = 1"))

    async def fail() -> None:
        async with database.transaction() as session:
            await (await session.connection()).execute(text("UPDATE budget SET used = 2"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert await used(database) == 1


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_full_disk_is_an_outage_that_may_pass(database: Database) -> None:
    async def write(size: int, pages: int) -> None:
        async with database.transaction() as session:
            connection = await session.connection()
            await connection.execute(text(f"PRAGMA max_page_count = {pages}"))
            await connection.execute(text("CREATE TABLE large (bytes BLOB)"))
            await connection.execute(text(f"INSERT INTO large VALUES (zeroblob({size}))"))

    with pytest.raises(FleetError) as refused:
        await write(4_000_000, 20)
    assert (refused.value.reason, refused.value.message) == ("UNAVAILABLE", "The database can't be used.")
    await write(4_000_000, 1_000_000)


async def test_a_wrong_statement_is_no_outage(database: Database) -> None:
    with pytest.raises(DBAPIError):
        async with database.reading() as session:
            await (await session.connection()).execute(text("SELECT nothing FROM nowhere"))


async def test_foreign_keys_and_checks_hold(database: Database) -> None:
    with pytest.raises(IntegrityError):
        async with database.transaction() as session:
            await (await session.connection()).execute(text("INSERT INTO child VALUES (1, 99)"))
    with pytest.raises(IntegrityError):
        async with database.transaction() as session:
            await (await session.connection()).execute(text("UPDATE budget SET used = 21"))


async def test_atomic_statements_never_pass_the_limit(database: Database) -> None:
    async def reserve() -> int:
        async with database.transaction() as session:
            outcome = await (await session.connection()).execute(
                text("UPDATE budget SET used = used + 1 WHERE used + 1 <= 20")
            )
            return int(outcome.rowcount)  # type: ignore[attr-defined]

    granted = await asyncio.gather(*(reserve() for _ in range(40)))
    assert sum(granted) == 20
    assert await used(database) == 20


async def test_a_cancelled_transaction_leaves_nothing(database: Database) -> None:
    entered = asyncio.Event()

    async def write() -> None:
        async with database.transaction() as session:
            await (await session.connection()).execute(text("UPDATE budget SET used = 7"))
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await used(database) == 0
    async with database.transaction() as session:
        await (await session.connection()).execute(text("UPDATE budget SET used = 8"))
    assert await used(database) == 8


async def test_readers_see_the_committed_state_beside_a_writer(database: Database) -> None:
    async with database.transaction() as session:
        await (await session.connection()).execute(text("UPDATE budget SET used = 3"))
        assert await asyncio.wait_for(used(database), 5) == 0
    assert await used(database) == 3


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_sqlite_refuses_to_write_where_it_reads_behind_a_writer(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.common.database.BUSY_SECONDS", 0.1)
    other = Database(database_url)
    async with database.transaction():
        with pytest.raises(FleetError) as refused:
            async with other.transaction():
                pass
        assert (refused.value.reason, refused.value.retry_after) == ("UNAVAILABLE", 1.0)
        with pytest.raises(FleetError, match="busy"):
            async with database.transaction():
                pass
    async with other.transaction() as session:
        await (await session.connection()).execute(text("UPDATE budget SET used = 4"))
        mode = (await (await session.connection()).execute(text("PRAGMA journal_mode"))).scalar_one()
    await other.close()
    assert mode == "wal"
    assert await used(database) == 4


@pytest.mark.parametrize("url", ["mysql://user:password@host/db", "no url", "sqlite+pysqlite:///x"])
def test_other_databases_are_refused_without_their_url(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        Database(url)
    assert "password" not in str(error.value)
