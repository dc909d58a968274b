"""How far each run of a store has come, for those who look again and again: a look that meets nothing new is cheap.

It only ever reads. A connection belongs to the thread that opened it, so each of these is used from one thread.
"""

import sqlite3
from pathlib import Path

from pipeline.journal.failures import told
from pipeline.journal.store import DATABASE, exists, identity, open_database

LEDGER = ""  # the name that no run has: the store's ledger has a head too

_HEADS = """
SELECT name, (SELECT max(id) FROM records WHERE id > number << 32 AND id < (number + 1) << 32) & 4294967295
FROM (SELECT number, name FROM runs UNION ALL SELECT 0, '') ORDER BY number
"""


class Heads:
    """The numbers of the last records, of each run and of the ledger."""

    def __init__(self, directory: Path) -> None:
        self._path = directory.absolute() / DATABASE
        self._database: sqlite3.Connection | None = None
        self._file: tuple[tuple[int, int], ...] = ()
        self._version = 0

    def moved(self) -> bool:
        """Whether anything may be new since this was last asked; always so the first time."""
        with told(self._path):
            database = self._opened()
            version = database.execute("PRAGMA data_version").fetchone()[0] if database else 0
        before, self._version = self._version, version
        return before != version or not version

    def read(self) -> dict[str, int]:
        """The number of each run's last record, the oldest run first; that of the ledger's last line is `LEDGER`'s."""
        with told(self._path):
            database = self._opened()
            rows = database.execute(_HEADS).fetchall() if database else []
        return {name: head or 0 for name, head in rows}

    def close(self) -> None:
        """Let go of the store; it is opened again when somebody asks."""
        database, self._database, self._version = self._database, None, 0
        if database is not None:
            database.close()

    def _opened(self) -> sqlite3.Connection | None:
        """The database that has the name now; another may have taken its place."""
        file = identity((str(self._path),))
        if file != self._file:
            self.close()
            self._file = file
        if self._database is None and exists(self._path):
            self._database = open_database(self._path)
            self._database.execute("PRAGMA query_only=ON")
        return self._database
