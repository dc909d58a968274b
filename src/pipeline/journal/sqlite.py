"""The journal in an SQLite database: an append is one commit, on the disk before it returns, and changes no row."""

import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pipeline.engine.ports import Entry, JournalError, UnknownRun
from pipeline.engine.records import AnyRecord
from pipeline.journal.attachments import ATTACHMENT_ERRORS, packed, unpacked
from pipeline.journal.failures import DATABASE_ERRORS, journal_error, told
from pipeline.journal.ids import check_run_id, there_already
from pipeline.journal.listing import Listing
from pipeline.journal.lock import LOCKS, owned
from pipeline.journal.records import damaged, decode, encode
from pipeline.journal.store import DATABASE, exists, identity, open_database, parts, prepare

T = TypeVar("T")

_RUN_BITS = 32  # an id is the run's number, shifted by these, and the record's number
_BATCH = 100  # records read at once, so that no read stays open while somebody uses them
_SEQ = (1 << _RUN_BITS) - 1
_LEDGER = 0  # the number that no run has: the lines of the ledger are kept under it
_NEWEST = "SELECT max(id) FROM records WHERE id > ? AND id < ?"
_SELECT = "SELECT id, crc, CAST(body AS BLOB) FROM records WHERE id > ? AND id < ? ORDER BY id"


class SqliteJournal:
    """The runs of one store. The store is made when the first run is created; until then there are none."""

    def __init__(self, directory: Path, *, now: Callable[[], float] = time.time) -> None:
        self._directory = directory.absolute()
        self._path = self._directory / DATABASE
        self._parts = parts(self._path)
        self._listing = Listing(str(self._directory))
        self._now = now
        self._database: sqlite3.Connection | None = None
        self._identity: tuple[tuple[int, int], ...] = ()
        self._numbers: dict[str, int] = {}  # of runs; they never change
        self._newest: dict[int, int] = {}  # the id of a run's last record, where this process wrote it

    def create(self, run_id: str, record: AnyRecord) -> None:
        check_run_id(run_id)
        body = encode(record)
        if self._database is None:  # else it was there, and is missed rather than made again
            with told(self._path):
                prepare(self._directory)
        with self._committing() as database:
            if self._found(run_id) is not None:
                raise there_already(run_id)
            number = database.execute("INSERT INTO runs (name) VALUES (?)", (run_id,)).lastrowid or 0
            insert(database, _id(number, 1), body, "")

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        body = encode(record)
        number = self._number(run_id)
        if lines:
            return self._append_all(run_id, number, body, attached, lines)
        try:
            return self._append_one(run_id, number, body, attached)
        except DATABASE_ERRORS as error:
            raise journal_error(self._path, error) from error

    def _append_one(self, run_id: str, number: int, body: bytes, attached: str) -> int:
        database = self._opened()
        self._check_identity()
        id = (self._newest.pop(number, 0) or self._last_id(run_id, number)) + 1
        try:
            insert(database, id, body, attached)
        except sqlite3.IntegrityError:  # somebody else has added to the run since
            id = self._last_id(run_id, number) + 1
            insert(database, id, body, attached)
        self._newest[number] = id
        return id & _SEQ

    def _append_all(self, run_id: str, number: int, body: bytes, attached: str, lines: Sequence[str]) -> int:
        with self._committing() as database:
            id = self._last_id(run_id, number) + 1
            insert(database, id, body, attached)
            insert_lines(database, lines)
        self._newest[number] = id
        return id & _SEQ

    def enter(self, lines: Iterable[str]) -> int:
        if self._database is None:
            with told(self._path):
                prepare(self._directory)
        with self._committing() as database:
            return insert_lines(database, lines)

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        for seq, body in self._sound_rows("the ledger", _LEDGER, after):
            yield seq, body.decode(errors="surrogatepass")

    def _last_id(self, run_id: str, number: int) -> int:
        newest: int | None = self._opened().execute(_NEWEST, _ids(number)).fetchone()[0]
        if newest is None:
            raise damaged(f"run {run_id}", 1, "it is missing")
        return newest

    def attached(self, run_id: str, seq: int) -> str:
        number = self._number(run_id)
        rows = self._rows("SELECT attached FROM records WHERE id = ?", (_id(number, seq),))
        try:
            return unpacked(rows[0][0]) if rows and rows[0][0] is not None else ""
        except ATTACHMENT_ERRORS as error:
            raise damaged(f"run {run_id}", seq, "the text attached to it cannot be read") from error

    def entries(self, run_id: str, after: int = 0) -> Iterator[Entry]:
        return self._entries(run_id, self._number(run_id), after)

    def last(self, run_id: str) -> Entry:
        number = self._number(run_id)
        rows = self._rows(f"{_SELECT} DESC LIMIT 1", _ids(number))
        if not rows or rows[0][0] >> _RUN_BITS != number:
            raise damaged(f"run {run_id}", 1, "it is missing")
        seq = rows[0][0] & _SEQ
        return Entry(seq, decode(_body(f"run {run_id}", seq, rows[0]), run_id, seq))

    def runs(self) -> Sequence[str]:
        rows = self._rows("SELECT name FROM runs ORDER BY number")
        return tuple(_sound(self._path, row[0], str) for row in rows)

    def own(self, run_id: str) -> AbstractContextManager[None]:
        check_run_id(run_id)
        return owned(self._directory / LOCKS, run_id, self._now)

    def close(self) -> None:
        database, self._database = self._database, None
        self._numbers.clear()
        self._newest.clear()
        if database is not None:
            with told(self._path):
                database.close()

    def _entries(self, run_id: str, number: int, after: int) -> Iterator[Entry]:
        for seq, body in self._sound_rows(f"run {run_id}", number, after):
            yield Entry(seq, decode(body, run_id, seq))

    def _sound_rows(self, whose: str, number: int, after: int) -> Iterator[tuple[int, bytes]]:
        """The bodies of some rows, each where it should be and as it was written."""
        while rows := self._rows(f"{_SELECT} LIMIT {_BATCH}", _ids(number, after)):
            for row in rows:
                if row[0] != _id(number, after + 1):
                    raise damaged(whose, after + 1, "it is missing")
                after += 1
                yield after, _body(whose, after, row)

    def _number(self, run_id: str) -> int:
        number = self._numbers.get(run_id)
        if number is None:
            number = self._found(run_id)
        if number is None:
            raise UnknownRun(f"there is no run {run_id} in {self._directory}")
        self._numbers[run_id] = number
        return number

    def _found(self, run_id: str) -> int | None:
        rows = self._rows("SELECT number FROM runs WHERE name = ?", (run_id,))
        return _sound(self._path, rows[0][0], int) if rows else None

    def _rows(self, query: str, values: tuple[int | str, ...] = ()) -> list[tuple[Any, ...]]:
        with told(self._path):
            if self._database is None and not exists(self._path):
                return []
            return self._opened().execute(query, values).fetchall()

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            database = open_database(self._path)
            self._identity = identity(self._parts)
            self._database = database
        return self._database

    @contextmanager
    def _committing(self) -> Iterator[sqlite3.Connection]:
        with told(self._path):
            database = self._opened()
            self._check_identity()
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")

    def _check_identity(self) -> None:
        if self._listing.unchanged():
            return
        self._listing.checked()
        if identity(self._parts) != self._identity:
            raise JournalError(
                f"{self._path} was removed or replaced while the run was at it, so nothing more was recorded",
                help="put the store back where it was, and resume the run",
            )


def _sound(path: Path, value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise JournalError(f"the list of runs in {path} is damaged", help="restore it from a copy; nothing was changed")
    return value


def _id(number: int, seq: int) -> int:
    return number << _RUN_BITS | seq


def _ids(number: int, after: int = 0) -> tuple[int, int]:
    """What the ids of a run's records lie between."""
    return _id(number, after), _id(number + 1, 0)


def insert(database: sqlite3.Connection, id: int, body: bytes, attached: str) -> None:
    """Add a record; one statement, and so one transaction where none is open."""
    row = (id, zlib.crc32(body, id & _SEQ), body, packed(attached) if attached else None)
    database.execute("INSERT INTO records VALUES (?, ?, CAST(? AS TEXT), ?)", row)


def newest_of(database: sqlite3.Connection, number: int) -> int:
    """The id of the last record of a run, or that after which its first one comes."""
    return database.execute(_NEWEST, _ids(number)).fetchone()[0] or _id(number, 0)


def insert_lines(database: sqlite3.Connection, lines: Iterable[str]) -> int:
    """Add lines to the ledger; the number of its last line."""
    newest = newest_of(database, _LEDGER)
    bodies = (line.encode(errors="surrogatepass") for line in lines)
    rows = ((seq, zlib.crc32(body, seq), body) for seq, body in enumerate(bodies, start=newest + 1))
    done = database.executemany("INSERT INTO records VALUES (?, ?, CAST(? AS TEXT), NULL)", rows)
    return newest + max(done.rowcount, 0)


def _body(whose: str, seq: int, row: tuple[Any, ...]) -> bytes:
    _, crc, body = row
    if type(body) is not bytes or zlib.crc32(body, seq) != crc:
        raise damaged(whose, seq, "its checksum does not match")
    return body
