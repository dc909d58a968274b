"""The mailbox of a store: answers and cancel requests that other processes leave for a run."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pipeline.engine.ports import CancelRequest, HumanAnswer
from pipeline.journal.sqlite import DATABASE, database_exists, open_database, translate_errors

_ANSWER = "SELECT * FROM answers WHERE run = ? AND stage = ? AND visit = ?"
_COUNT = "SELECT count(*) FROM cancellations WHERE run = ?"


class SqliteMailbox:
    """The mailbox in the database of a store. Each call has its own connection, so nothing stays open in between."""

    def __init__(self, store: Path) -> None:
        self._path = store.absolute() / DATABASE

    def put_answer(self, answer: HumanAnswer) -> HumanAnswer:
        visit = (answer.run_id, answer.stage, answer.visit)
        values = (*visit, answer.option, _storable(answer.feedback), answer.by, answer.at)
        with self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            return HumanAnswer(*database.execute(_ANSWER, visit).fetchone())

    def answer(self, run_id: str, stage: str, visit: int) -> HumanAnswer | None:
        row = self._find(_ANSWER, run_id, stage, visit)
        return HumanAnswer(*row) if row else None

    def put_cancel_request(self, request: CancelRequest) -> None:
        with self._transaction() as database:
            number = database.execute(_COUNT, (request.run_id,)).fetchone()[0] + 1
            values = (request.run_id, number, _storable(request.reason), request.by, request.at)
            database.execute("INSERT INTO cancellations VALUES (?, ?, ?, ?, ?)", values)

    def cancel_request(self, run_id: str, after: int) -> CancelRequest | None:
        query = "SELECT run, reason, sender, at FROM cancellations WHERE run = ? AND number > ? ORDER BY number LIMIT 1"
        row = self._find(query, run_id, after)
        return CancelRequest(*row) if row else None

    def cancel_requests(self, run_id: str) -> int:
        return sum(self._find(_COUNT, run_id))

    def _find(self, query: str, *values: str | int) -> tuple[Any, ...]:
        """Return the row that a query finds; an empty one if there is none."""
        with translate_errors(self._path):
            if not database_exists(self._path):
                return ()
            with closing(open_database(self._path)) as database:
                return database.execute(query, values).fetchone() or ()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with translate_errors(self._path), closing(open_database(self._path)) as database:
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")  # a connection that is closed without it changes nothing


def _storable(text: str) -> str:
    """Return a text without half surrogate pairs, which have no UTF-8."""
    return text.encode(errors="replace").decode()
