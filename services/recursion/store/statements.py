"""Transactions of a few plain statements, which every prompt and tool call of a Turn waits for.

The statements are written once, in SQL that SQLite and PostgreSQL both understand, as an ordinary function that is
given something to run them with. On PostgreSQL that is a connection of the engine. On SQLite it is one connection in
a thread of its own: a whole transaction costs one hop there, where the engine hops for every statement and takes ten
times as long.

SQLite runs with `synchronous = NORMAL` in WAL mode. A killed process loses nothing that was committed. A machine that
loses power may lose the last commits, but never half of one, and with it everybody who was granted something by
them: a SQLite deployment is one machine, and its Turns don't survive it. So no crash can grant more than the limit.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, text

from services.common.database import BUSY_SECONDS, Database, is_outage, unusable
from services.common.errors import FleetError

Values = Mapping[str, str | int]
Row = tuple[Any, ...]
T = TypeVar("T")


class Statements(Protocol):
    """Runs statements of one transaction."""

    def row(self, sql: str, values: Values) -> Row | None:
        """The first row of a statement that returns some, or None."""
        ...

    def change(self, sql: str, values: Values) -> int:
        """How many rows a statement changed."""
        ...


class Transactions(Protocol):
    """Runs short transactions; each raises FleetError UNAVAILABLE when the database can't be used."""

    async def run(self, work: Callable[[Statements], T]) -> T:
        """Run `work` in a transaction: committed when it returns, rolled back when it raises."""
        ...

    async def close(self) -> None:
        """Close what was opened for it; the database itself is its owner's to close."""
        ...


def transactions(database: Database) -> Transactions:
    """The transactions of `database` in the way that suits it."""
    path = database.engine.url.database
    if database.is_sqlite and path and path != ":memory:":
        return _SqliteThread(path)
    return _Engine(database)


class Through:
    """Statements through an SQLAlchemy connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def row(self, sql: str, values: Values) -> Row | None:
        """The first row of a statement that returns some, or None."""
        found = self._connection.execute(text(sql), values).first()
        return None if found is None else tuple(found)

    def change(self, sql: str, values: Values) -> int:
        """How many rows a statement changed."""
        return self._connection.execute(text(sql), values).rowcount


class _Engine:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, work: Callable[[Statements], T]) -> T:
        async with self._database.transaction() as session:
            return await session.run_sync(lambda inner: work(Through(inner.connection())))

    async def close(self) -> None:
        return None


class _SqliteThread:
    """A connection in a thread of its own, opened at first use."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ledger")
        self._connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[Statements], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, work)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown()

    def _transact(self, work: Callable[[Statements], T]) -> T:
        connection = self._connected()
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise FleetError("UNAVAILABLE", "The database is busy.", retry_after=1.0) from error
        try:
            result = work(_Cursor(connection))
            connection.execute("COMMIT")
        except BaseException as error:
            _roll_back(connection)
            if isinstance(error, sqlite3.Error) and is_outage(error):
                raise unusable(error) from error
            raise
        return result

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            # Isolation level None: the transaction is begun and ended above, and by nobody else.
            self._connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _roll_back(connection: sqlite3.Connection) -> None:
    """Undo what was done; after a full disk SQLite has done so by itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


class _Cursor:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def row(self, sql: str, values: Values) -> Row | None:
        found: Row | None = self._connection.execute(sql, dict(values)).fetchone()
        return found

    def change(self, sql: str, values: Values) -> int:
        return self._connection.execute(sql, dict(values)).rowcount
