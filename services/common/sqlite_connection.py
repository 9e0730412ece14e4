"""SQLite's driver connection with one hop to its thread for a statement.

aiosqlite hops for each of a statement's four parts: its cursor, its execution, its rows, its end. SQLAlchemy asks for
all rows at once anyway, and a busy process waits for the interpreter's lock at every hop. A query takes less than half
the time this way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import aiosqlite

T = TypeVar("T")

_ITERATED_ROWS = 64


def connect_sqlite(database: str, **options: Any) -> OneHopConnection:
    """A connection to open by awaiting it; takes what `sqlite3.connect` takes."""
    return OneHopConnection(lambda: sqlite3.connect(database, **options))


class OneHopConnection(aiosqlite.Connection):
    """An aiosqlite connection whose cursors run a whole statement in one hop."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, _ITERATED_ROWS)
        # A connection that its owner could not close must not keep the process alive.
        self._thread.daemon = True

    def cursor(self) -> OneHopCursor:  # type: ignore[override]  # SQLAlchemy only enters it as a context
        """A cursor that costs nothing before its first statement."""
        return OneHopCursor(self)

    async def in_thread(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in the connection's thread.

        Raises:
            ValueError: the connection is closed.
        """
        done: T = await self._execute(work, self._conn)  # type: ignore[no-untyped-call]
        return done


class OneHopCursor:
    """What SQLAlchemy needs of a cursor; holds the rows of its last statement.

    Attributes:
        description: the columns of the rows, None for a statement without.
        rowcount: rows that the statement changed, -1 when that has no meaning.
        lastrowid: of the row that was inserted last.
        arraysize: rows that `fetchmany` gives by default.
    """

    def __init__(self, connection: OneHopConnection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def __aenter__(self) -> Self:
        """Nothing is opened: the first statement does that."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget the rows."""
        await self.close()

    async def execute(self, sql: str, parameters: Any = ()) -> Self:
        """Run a statement and keep all its rows."""
        await self._connection.in_thread(lambda connection: self._run(connection, lambda c: c.execute(sql, parameters)))
        return self

    async def executemany(self, sql: str, parameters: Iterable[Any]) -> Self:
        """Run a statement once for each set of parameters."""
        await self._connection.in_thread(
            lambda connection: self._run(connection, lambda c: c.executemany(sql, parameters))
        )
        return self

    async def fetchone(self) -> Any:
        """The next row, or None."""
        return self._rows.pop(0) if self._rows else None

    async def fetchmany(self, size: int | None = None) -> Sequence[Any]:
        """The next rows."""
        count = self.arraysize if size is None else size
        taken, self._rows = self._rows[:count], self._rows[count:]
        return taken

    async def fetchall(self) -> Sequence[Any]:
        """The rows that are left."""
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """Forget the rows."""
        self._rows = []

    def _run(self, connection: sqlite3.Connection, statement: Callable[[sqlite3.Cursor], object]) -> None:
        cursor = connection.cursor()
        try:
            statement(cursor)
            self.description = cursor.description
            self._rows = cursor.fetchall() if cursor.description else []
            # Known only once a statement that returns rows has been stepped through.
            self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        finally:
            cursor.close()
