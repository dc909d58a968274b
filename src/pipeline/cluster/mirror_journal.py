"""A journal that is the copy of another: many records in one commit, and nothing that could not be copied again."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.engine.records import AnyRecord
from pipeline.journal.codec import encode
from pipeline.journal.ids import check_run_id
from pipeline.journal.sqlite import SqliteJournal, create_store, insert, insert_lines, newest_of, translate_errors

Copied = tuple[AnyRecord | None, str, Sequence[str]]  # a record, the text attached to it, and lines for the ledger


class MirroredJournal(SqliteJournal):
    """A store into which runs are copied. Its ledger holds the lines of all runs, in the order of their coming."""

    def copy(self, run_id: str, number: int, rows: Sequence[Copied]) -> range:
        """Add what else there is of a run, all of it or nothing; the numbers of its lines in the ledger.

        The runs of a store are in the order of their numbers.
        """
        check_run_id(run_id)
        if self._database is None:
            with translate_errors(self._path):
                create_store(self._directory)
        with self._committing() as database:
            database.execute("INSERT OR IGNORE INTO runs VALUES (?, ?)", (number, run_id))
            id = newest_of(database, number)
            for record, attached, _ in rows:
                if record is not None:
                    id += 1
                    insert(database, id, encode(record), attached)
            lines = [line for _, _, more in rows for line in more]
            end = insert_lines(database, lines)
        return range(end - len(lines) + 1, end + 1)

    def _opened(self) -> sqlite3.Connection:
        fresh = self._database is None
        database = super()._opened()
        if fresh:
            database.execute("PRAGMA synchronous=OFF")  # what a crash takes is copied again
        return database


class LedgerOfRun(SqliteJournal):
    """The same store with the lines of one run as its ledger, which lie in these parts of the whole."""

    def __init__(self, directory: Path, parts: Sequence[range]) -> None:
        super().__init__(directory)
        self._lines = tuple(parts)

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        number = 0
        for part in self._lines:
            skipped = min(max(after - number, 0), len(part))
            number += skipped
            whole = super().ledger(part.start - 1 + skipped)
            for _, (_, line) in zip(part[skipped:], whole, strict=False):
                number += 1
                yield number, line
