"""One service's database: SQLite on a laptop, PostgreSQL in production, both with short transactions."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiosqlite
from sqlalchemy import event, make_url
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlmodel.ext.asyncio.session import AsyncSession

from config.policy import Policy
from config.problem import ConfigError, Problem
from services.common.data_root import prepare
from services.common.errors import FleetError
from services.common.logging import get_logger
from services.common.sqlite_connection import connect_sqlite

BUSY_SECONDS = 10.0
"""How long a write waits for the database's one writer, on SQLite."""

_WAL_RETRY_SECONDS = 0.02
_SQLITE_OUTAGES = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_READONLY")
# SQLSTATE classes: connection, insufficient resources, operator intervention, system error.
_POSTGRES_OUTAGES = ("08", "53", "57", "58")
_READ_ONLY = "fleet_read_only"
_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}

_log = get_logger(__name__)


class Database:
    """An engine and its transactions. It belongs to the event loop that first uses it.

    Args:
        url: `sqlite:///path` or `postgresql://…`.

    Attributes:
        engine: the SQLAlchemy engine.
        is_sqlite: whether it is SQLite, whose writers take turns.

    Raises:
        ConfigError: the URL is no database that Fleet can use; its text is not repeated.
    """

    def __init__(self, url: str) -> None:
        parsed = async_url(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.engine: AsyncEngine = _sqlite_engine(parsed) if self.is_sqlite else _postgres_engine(parsed)
        self._reader = self.engine.execution_options(**{_READ_ONLY: True})
        # SQLite's own waiting polls in ever longer naps; within a process a lock hands over at once and in order.
        self._writer = asyncio.Lock() if self.is_sqlite else None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """A session in a transaction that may write: committed at the end, rolled back when the block raises.

        On SQLite it holds the write lock from its beginning, so that it never fails half way for want of it. Make no
        network call inside, and no second transaction.

        Raises:
            FleetError: UNAVAILABLE, when other writers hold SQLite for too long, or the database can't be used.
        """
        async with _outages(), self._turn_to_write(), AsyncSession(self.engine, expire_on_commit=False) as session:
            async with session.begin():
                if self.is_sqlite:
                    await session.connection()  # sends BEGIN IMMEDIATE, which otherwise waits for the first statement
                yield session

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncSession]:
        """A session in a transaction that only reads, one consistent state of SQLite, beside any writer.

        Raises:
            FleetError: UNAVAILABLE, when the database can't be used.
        """
        async with _outages(), AsyncSession(self._reader, expire_on_commit=False) as session:
            async with session.begin():
                yield session

    async def close(self) -> None:
        """Close every connection."""
        await self.engine.dispose()

    @asynccontextmanager
    async def _turn_to_write(self) -> AsyncIterator[None]:
        if self._writer is None:
            yield
            return
        try:
            async with asyncio.timeout(BUSY_SECONDS):
                await self._writer.acquire()
        except TimeoutError as error:
            raise FleetError("UNAVAILABLE", "The database is busy.", retry_after=1.0) from error
        try:
            yield
        finally:
            self._writer.release()


@asynccontextmanager
async def _outages() -> AsyncIterator[None]:
    """Have a full disk, a lost connection and their like told as what they are: nobody's fault, and they may pass."""
    try:
        yield
    except DBAPIError as error:
        if not is_outage(error.orig) and not error.connection_invalidated:
            raise
        raise unusable(error) from error


def is_outage(error: BaseException | None) -> bool:
    """Whether a driver's error says that the database can't serve anybody, not that the statement was wrong."""
    name, state = getattr(error, "sqlite_errorname", ""), getattr(error, "sqlstate", None) or ""
    return str(name).startswith(_SQLITE_OUTAGES) or str(state).startswith(_POSTGRES_OUTAGES)


def unusable(error: Exception) -> FleetError:
    """Log an outage and say what a transaction fails with."""
    _log.warning("the database can't be used", exc_info=error)
    return FleetError("UNAVAILABLE", "The database can't be used.", retry_after=1.0)


def database_url(policy: Policy, service: str, env: Mapping[str, str] | None = None) -> str:
    """The URL of `service`'s database: from its variable, else a SQLite file below the data root, which is made.

    Raises:
        ConfigError: the data root can't be made.
    """
    environment = os.environ if env is None else env
    name: str = getattr(policy.database, f"{service}_url_env")
    given = environment.get(name, "").strip() if name else ""
    if given:
        return given
    path = prepare(policy.storage.root) / f"{service}.db"
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def async_url(url: str) -> URL:
    """`url` with the driver that Fleet uses.

    Raises:
        ConfigError: it is no URL of SQLite or PostgreSQL.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError([Problem("database", "a database URL can't be read")]) from error
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise ConfigError([Problem("database", "a database URL must begin with sqlite: or postgresql:")])
    return parsed.set(drivername=driver)


def _postgres_engine(url: URL) -> AsyncEngine:
    return create_async_engine(url, pool_size=10, max_overflow=10, pool_pre_ping=True, pool_recycle=1_800)


def _sqlite_engine(url: URL) -> AsyncEngine:
    engine = create_async_engine(url, connect_args={"timeout": BUSY_SECONDS, "async_creator_fn": connect_sqlite})

    @event.listens_for(engine.sync_engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        # The driver would begin transactions by itself, and late; the listener below begins them.
        connection.isolation_level = None
        connection.run_async(_set_pragmas)

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        read_only = connection.get_execution_options().get(_READ_ONLY, False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


async def _set_pragmas(connection: aiosqlite.Connection) -> None:
    # A result that isn't read to its end would hold a lock, and a later write would fail at once for want of it.
    await connection.execute_fetchall("PRAGMA synchronous = NORMAL")
    await connection.execute_fetchall("PRAGMA foreign_keys = ON")
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            await connection.execute_fetchall("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            # SQLite doesn't wait by itself when several connections make this first switch of a file at once.
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(_WAL_RETRY_SECONDS)
        else:
            return
