"""A letter-box in the store's database: what people elsewhere have for the process at a run.

It stands beside the journal and is no part of it: the tables are made when the first letter comes, and a program that
does not know them leaves them alone. The first answer to a visit stays the only one.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pipeline.engine.ports import CancelRequest, HumanAnswer
from pipeline.journal.sqlite import DATABASE, database_exists, open_database, translate_errors

_TABLES = """
CREATE TABLE IF NOT EXISTS answers (
  run TEXT, stage TEXT, visit INTEGER, option TEXT NOT NULL, feedback TEXT NOT NULL, sender TEXT NOT NULL,
  at REAL NOT NULL, PRIMARY KEY (run, stage, visit)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cancellations (
  run TEXT, number INTEGER, reason TEXT NOT NULL, sender TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (run, number)
) WITHOUT ROWID;
"""
_THERE = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'cancellations'"
_ANSWER = "SELECT * FROM answers WHERE run = ? AND stage = ? AND visit = ?"
_WISH = "SELECT run, reason, sender, at FROM cancellations WHERE run = ? AND number > ? ORDER BY number LIMIT 1"
_COUNT = "SELECT count(*) FROM cancellations WHERE run = ?"


class SqliteMailbox:
    """The letters of one store. Each call has a connection of its own, so that nothing is held open in between."""

    def __init__(self, store: Path) -> None:
        self._path = store.absolute() / DATABASE

    def put_answer(self, answer: HumanAnswer) -> HumanAnswer:
        feedback = answer.feedback.encode(errors="replace").decode()  # half of a surrogate pair has no UTF-8
        values = (answer.run_id, answer.stage, answer.visit, answer.option, feedback, answer.by, answer.at)
        with self._writing() as database:
            database.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            return HumanAnswer(*database.execute(_ANSWER, values[:3]).fetchone())

    def answer(self, run_id: str, stage: str, visit: int) -> HumanAnswer | None:
        row = self._row(_ANSWER, run_id, stage, visit)
        return HumanAnswer(*row) if row else None

    def put_cancel_request(self, wish: CancelRequest) -> None:
        with self._writing() as database:
            number = database.execute(_COUNT, (wish.run_id,)).fetchone()[0] + 1
            reason = wish.reason.encode(errors="replace").decode()
            values = (wish.run_id, number, reason, wish.by, wish.at)
            database.execute("INSERT INTO cancellations VALUES (?, ?, ?, ?, ?)", values)

    def cancel_request(self, run_id: str, after: int) -> CancelRequest | None:
        row = self._row(_WISH, run_id, after)
        return CancelRequest(*row) if row else None

    def cancel_requests(self, run_id: str) -> int:
        return sum(self._row(_COUNT, run_id))

    def _row(self, query: str, *values: str | int) -> tuple[Any, ...]:
        """The row that a query gives; an empty one when there is none, as where no letter ever came."""
        with translate_errors(self._path):
            if not database_exists(self._path):
                return ()
            with closing(open_database(self._path)) as database:
                there = database.execute(_THERE).fetchone()[0]
                return database.execute(query, values).fetchone() or () if there else ()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with translate_errors(self._path), closing(open_database(self._path)) as database:
            database.executescript(f"BEGIN IMMEDIATE; {_TABLES}")
            yield database
            database.execute("COMMIT")  # a connection that is closed before takes all of it back


class MemoryMailbox:
    """Letters that last as long as their process."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, int], HumanAnswer] = {}
        self._wishes: dict[str, list[CancelRequest]] = {}

    def put_answer(self, answer: HumanAnswer) -> HumanAnswer:
        return self._answers.setdefault((answer.run_id, answer.stage, answer.visit), answer)

    def answer(self, run_id: str, stage: str, visit: int) -> HumanAnswer | None:
        return self._answers.get((run_id, stage, visit))

    def put_cancel_request(self, wish: CancelRequest) -> None:
        self._wishes.setdefault(wish.run_id, []).append(wish)

    def cancel_request(self, run_id: str, after: int) -> CancelRequest | None:
        return next(iter(self._wishes.get(run_id, [])[after:]), None)

    def cancel_requests(self, run_id: str) -> int:
        return len(self._wishes.get(run_id, []))
