"""A journal that is a copy of another: many records in one commit, and nothing that cannot be copied again."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.engine.records import AnyRecord
from pipeline.journal import check_run_id
from pipeline.journal.codec import encode
from pipeline.journal.sqlite import SqliteJournal, insert_lines, insert_record

CopiedRow = tuple[AnyRecord | None, str, Sequence[str]]  # a record, the text attached to it, and lines for the ledger


class MirroredJournal(SqliteJournal):
    """A store into which runs are copied. Its ledger holds the lines of all runs, in the order they were copied."""

    def copy(self, run_id: str, number: int, rows: Sequence[CopiedRow]) -> range:
        """Add the new rows of a run, all or none, and return the numbers of its lines in the ledger.

        The runs of a store are listed by their numbers.
        """
        check_run_id(run_id)
        with self._transaction(create=True) as database:
            database.execute("INSERT OR IGNORE INTO runs VALUES (?, ?)", (number, run_id))
            seq = database.execute("SELECT max(seq) FROM records WHERE run = ?", (number,)).fetchone()[0] or 0
            for record, attached, _ in rows:
                if record is not None:
                    seq += 1
                    insert_record(database, number, seq, encode(record), attached)
            lines = [line for _, _, more in rows for line in more]
            end = insert_lines(database, lines)
        return range(end - len(lines) + 1, end + 1)

    def _open(self) -> sqlite3.Connection:
        fresh = self._database is None
        database = super()._open()
        if fresh:
            database.execute("PRAGMA synchronous=OFF")  # what a crash loses is copied again
        return database


class LedgerOfRun(SqliteJournal):
    """The same store with the lines of one run as its ledger, which are these parts of the whole ledger."""

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
