"""The journal in an SQLite database: an append is one commit, on the disk before it returns, and changes no row."""

import os
import shutil
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from pipeline.engine.ports import JournalEntry, JournalError, UnknownRun
from pipeline.engine.records import AnyRecord
from pipeline.journal.codec import ATTACHMENT_ERRORS, damaged_record, decode, encode, pack_text, unpack_text
from pipeline.journal.ids import check_run_id, run_exists
from pipeline.journal.lock import LOCKS, lock_run

_TOLD: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: (
        "the disk that holds {path} is full, so nothing more was recorded",
        "make room and resume the run; it goes on after the last recorded stage",
    ),
    sqlite3.SQLITE_READONLY: (
        "{path} cannot be written, so nothing more was recorded",
        "make the file and its directory writable, and resume the run",
    ),
    sqlite3.SQLITE_NOTADB: (
        "{path} is not a database, or its beginning is damaged",
        "nothing was changed; restore it from a copy, or move it away to begin an empty store",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "{path} is damaged",
        "nothing was changed; restore it from a copy together with the files named like it",
    ),
    sqlite3.SQLITE_BUSY: (
        "another process has kept {path} locked for a minute",
        "stop that process, or wait for it, and resume the run",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "{path} cannot be opened",
        "check that the file, its directory and the disk are there and may be read and written",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk that holds {path} failed, or has no room left",
        "look at the disk and resume the run; it goes on after the last recorded stage",
    ),
}


# What a damaged schema makes SQLite quote need not be UTF-8, and Python then cannot make its error of it.
DATABASE_ERRORS = (sqlite3.Error, OSError, UnicodeDecodeError)


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system raise about a database into a JournalError."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise journal_error(path, error) from error


def journal_error(path: Path, error: sqlite3.Error | OSError | UnicodeDecodeError) -> JournalError:
    """What SQLite or the system raised about a database, in words."""
    if isinstance(error, OSError):
        help = "check that the store's directory is there and may be read and written"
        return JournalError(f"{error.filename or path}: {error.strerror}", help=help)
    unknown = sqlite3.SQLITE_CORRUPT if isinstance(error, UnicodeDecodeError) else 0
    code = getattr(error, "sqlite_errorcode", unknown) & 0xFF  # the rest of the code says which call it was
    message, help = _TOLD.get(code, ("{path} cannot be used", "nothing was changed"))
    return JournalError(f"{message.format(path=path)} ({error})", help=help)


_SETTLED = 1_000_000_000  # nanoseconds: a directory changed later than that before a look may change again unseen


class Listing:
    """Remembers how a directory was when its entries were last checked. In doubt they have changed."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._checked: tuple[int, int, int] | None = None

    def unchanged(self) -> bool:
        """Whether nothing was added, removed or renamed in it since `checked`."""
        return self._checked is not None and self._looked() == self._checked

    def checked(self) -> None:
        """Its entries are about to be looked at, and will be found as they should be."""
        seen = self._looked()
        self._checked = seen if seen and time.time_ns() - seen[2] > _SETTLED else None

    def _looked(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._directory)  # noqa: PTH116 - asked at every stage, and a path would cost more
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns


SCHEMA = 1
DATABASE = "awf.db"

# A run's records lie side by side: the upper half of an id is the number of the run, the lower that of the record.
_TABLES = """
CREATE TABLE runs (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE records (id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body TEXT NOT NULL, attached BLOB);
"""
_PAGE = 2048  # bytes; a record of 3 KB then writes little more than itself, in few calls
_WAL_PAGES = 1024  # when the log is moved into the database: seldom, but a log that grows costs more than a full one
_PATIENCE = 60.0  # seconds for another process to finish its commit

_GITIGNORE = """\
# Runs stay out of version control; what configures them may go in.
/*
!/.gitignore
!/config.kdl
!/self-check
!/workflows/
"""


def create_store(directory: Path) -> None:
    """Make the directory and an empty database in it, where they are missing."""
    directory.mkdir(parents=True, exist_ok=True)
    ignore = directory / ".gitignore"
    if not ignore.exists():
        ignore.write_text(_GITIGNORE)
    if not database_exists(directory / DATABASE):
        _make(directory)


def database_exists(path: Path) -> bool:
    """Whether there is a database; raises JournalError where only a part of one is left.

    Another process may be making it: its log comes after it, and so is looked for first, and each is looked at once.
    """
    logged, size = _logged(path), _size(path)
    if size:
        return True
    if size is not None or logged:
        raise JournalError(
            f"{path} is {'gone' if size is None else 'empty'}, but it was not when awf last used it",
            help=f"restore it from a copy; to begin an empty store, move away all files named {path.name}*",
        )
    return False


def _logged(path: Path) -> bool:
    return bool(_size(Path(f"{path}-wal")))


def _size(path: Path) -> int | None:
    """How many bytes a file has; None where there is none."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _make(directory: Path) -> None:
    """Build the database elsewhere and give it its name at the end, unless another process was quicker."""
    with TemporaryDirectory(prefix="new-", dir=directory) as workshop:
        draft = Path(workshop, DATABASE)
        _fill(draft)
        try:
            os.link(draft, directory / DATABASE)
        except FileExistsError:
            return
    for changed in (directory, directory.parent):
        _sync(changed)


def _fill(path: Path) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.executescript(f"PRAGMA page_size={_PAGE}; PRAGMA journal_mode=WAL; {_TABLES}")
        database.execute(f"PRAGMA user_version={SCHEMA}")
    finally:
        database.close()


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_database(path: Path) -> sqlite3.Connection:
    """A connection to the database at a path, for reading only where it cannot be written."""
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    database = _connected(path, "mode=rw") if writable else _read_only(path)
    database.execute(f"PRAGMA wal_autocheckpoint={_WAL_PAGES}")
    database.execute(f"PRAGMA journal_size_limit={2 * _WAL_PAGES * _PAGE}")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("PRAGMA cell_size_check=ON")
    return database


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    database = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, isolation_level=None, timeout=_PATIENCE)
    try:
        _check_schema(path, database.execute("PRAGMA user_version").fetchone()[0])  # a read, which opens the log too
    except BaseException:
        database.close()
        raise
    return database


def _check_schema(path: Path, schema: int) -> None:
    if schema > SCHEMA:
        newer = f"{path} was written by a newer awf (schema {schema}, and this one reads {SCHEMA})"
        raise JournalError(newer, help="update awf; nothing was changed")
    if schema < 1:
        foreign = f"{path} is a database, but not a journal of awf"
        raise JournalError(foreign, help="move it away, or name another store")


def _read_only(path: Path) -> sqlite3.Connection:
    """A connection that needs no writing: SQLite wants an index of the log, which may be missing and cannot be made."""
    try:
        return _connected(path, "mode=ro")
    except sqlite3.OperationalError:
        if not _logged(path):
            return _connected(path, "mode=ro&immutable=1")
        return _copied(path)


def _copied(path: Path) -> sqlite3.Connection:
    with TemporaryDirectory(prefix="awf-") as elsewhere:  # the open connection outlives the names of its files
        for part in (path, Path(f"{path}-wal")):
            shutil.copyfile(part, Path(elsewhere, part.name))
        database = _connected(Path(elsewhere, path.name), "mode=rw")
        database.execute("PRAGMA query_only=ON")
        return database


def database_files(path: Path) -> tuple[str, ...]:
    """The files of an open database: itself, its log, and the log's index."""
    return str(path), f"{path}-wal", f"{path}-shm"


def file_identity(files: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Which files some names stand for; empty when one is missing."""
    try:
        seen = [os.stat(file) for file in files]  # noqa: PTH116 - asked at every append, and a path would cost more
    except FileNotFoundError:
        return ()
    return tuple((status.st_dev, status.st_ino) for status in seen)


LEDGER = ""  # the name that no run has: the store's ledger has a head too

_HEADS = """
SELECT name, (SELECT max(id) FROM records WHERE id > number << 32 AND id < (number + 1) << 32) & 4294967295
FROM (SELECT number, name FROM runs UNION ALL SELECT 0, '') ORDER BY number
"""


class StoreHeads:
    """The numbers of the last records, of each run and of the ledger."""

    def __init__(self, directory: Path) -> None:
        self._path = directory.absolute() / DATABASE
        self._database: sqlite3.Connection | None = None
        self._file: tuple[tuple[int, int], ...] = ()
        self._version = 0

    def moved(self) -> bool:
        """Whether anything may be new since this was last asked; always so the first time."""
        with translate_errors(self._path):
            database = self._opened()
            version = database.execute("PRAGMA data_version").fetchone()[0] if database else 0
        before, self._version = self._version, version
        return before != version or not version

    def read(self) -> dict[str, int]:
        """The number of each run's last record, the oldest run first; that of the ledger's last line is `LEDGER`'s."""
        with translate_errors(self._path):
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
        file = file_identity((str(self._path),))
        if file != self._file:
            self.close()
            self._file = file
        if self._database is None and database_exists(self._path):
            self._database = open_database(self._path)
            self._database.execute("PRAGMA query_only=ON")
        return self._database


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
        self._parts = database_files(self._path)
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
            with translate_errors(self._path):
                create_store(self._directory)
        with self._committing() as database:
            if self._found(run_id) is not None:
                raise run_exists(run_id)
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

    def append_ledger(self, lines: Iterable[str]) -> int:
        if self._database is None:
            with translate_errors(self._path):
                create_store(self._directory)
        with self._committing() as database:
            return insert_lines(database, lines)

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        for seq, body in self._sound_rows("the ledger", _LEDGER, after):
            yield seq, body.decode(errors="surrogatepass")

    def _last_id(self, run_id: str, number: int) -> int:
        newest: int | None = self._opened().execute(_NEWEST, _ids(number)).fetchone()[0]
        if newest is None:
            raise damaged_record(f"run {run_id}", 1, "it is missing")
        return newest

    def attached(self, run_id: str, seq: int) -> str:
        number = self._number(run_id)
        rows = self._rows("SELECT attached FROM records WHERE id = ?", (_id(number, seq),))
        try:
            return unpack_text(rows[0][0]) if rows and rows[0][0] is not None else ""
        except ATTACHMENT_ERRORS as error:
            raise damaged_record(f"run {run_id}", seq, "the text attached to it cannot be read") from error

    def entries(self, run_id: str, after: int = 0) -> Iterator[JournalEntry]:
        return self._entries(run_id, self._number(run_id), after)

    def last(self, run_id: str) -> JournalEntry:
        number = self._number(run_id)
        rows = self._rows(f"{_SELECT} DESC LIMIT 1", _ids(number))
        if not rows or rows[0][0] >> _RUN_BITS != number:
            raise damaged_record(f"run {run_id}", 1, "it is missing")
        seq = rows[0][0] & _SEQ
        return JournalEntry(seq, decode(_body(f"run {run_id}", seq, rows[0]), run_id, seq))

    def runs(self) -> Sequence[str]:
        rows = self._rows("SELECT name FROM runs ORDER BY number")
        return tuple(_sound(self._path, row[0], str) for row in rows)

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        check_run_id(run_id)
        return lock_run(self._directory / LOCKS, run_id, self._now)

    def close(self) -> None:
        database, self._database = self._database, None
        self._numbers.clear()
        self._newest.clear()
        if database is not None:
            with translate_errors(self._path):
                database.close()

    def _entries(self, run_id: str, number: int, after: int) -> Iterator[JournalEntry]:
        for seq, body in self._sound_rows(f"run {run_id}", number, after):
            yield JournalEntry(seq, decode(body, run_id, seq))

    def _sound_rows(self, whose: str, number: int, after: int) -> Iterator[tuple[int, bytes]]:
        """The bodies of some rows, each where it should be and as it was written."""
        while rows := self._rows(f"{_SELECT} LIMIT {_BATCH}", _ids(number, after)):
            for row in rows:
                if row[0] != _id(number, after + 1):
                    raise damaged_record(whose, after + 1, "it is missing")
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
        with translate_errors(self._path):
            if self._database is None and not database_exists(self._path):
                return []
            return self._opened().execute(query, values).fetchall()

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            database = open_database(self._path)
            self._identity = file_identity(self._parts)
            self._database = database
        return self._database

    @contextmanager
    def _committing(self) -> Iterator[sqlite3.Connection]:
        with translate_errors(self._path):
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
        if file_identity(self._parts) != self._identity:
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
    row = (id, zlib.crc32(body, id & _SEQ), body, pack_text(attached) if attached else None)
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
        raise damaged_record(whose, seq, "its checksum does not match")
    return body
