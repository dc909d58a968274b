"""The journal in an SQLite database: an append is one commit, on the disk before it returns, and changes no row."""

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pipeline.engine.errors import JournalError, UnknownRun
from pipeline.files import sync_directory
from pipeline.journal import check_run_id, run_exists
from pipeline.journal.lock import LOCKS, lock_run
from pipeline.journal.packing import ATTACHMENT_ERRORS, damaged_record, pack_text, unpack_text

if TYPE_CHECKING:
    from pipeline.engine.ports import JournalEntry
    from pipeline.engine.records import AnyRecord

DATABASE = "awf.db"
SCHEMA = 3  # of a store; one of another version is refused
LEDGER = ""  # the name under which `StoreHeads` lists the ledger; no run has it
_TIMEOUT = 60.0  # seconds to wait for another process to finish its commit
_BATCH = 100  # records read at once, so that no read transaction stays open while a caller uses them

_TABLES = {
    "runs": "(number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "records": "(run INTEGER, seq INTEGER, body BLOB NOT NULL, PRIMARY KEY (run, seq))",
    "attachments": "(run INTEGER, seq INTEGER, body BLOB NOT NULL, PRIMARY KEY (run, seq))",
    "ledger": "(seq INTEGER PRIMARY KEY, line BLOB NOT NULL)",
    "answers": "(run TEXT, stage TEXT, visit INTEGER, option TEXT NOT NULL, feedback TEXT NOT NULL,"
    " sender TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (run, stage, visit)) WITHOUT ROWID",
    "cancellations": "(run TEXT, number INTEGER, reason TEXT NOT NULL, sender TEXT NOT NULL, at REAL NOT NULL,"
    " PRIMARY KEY (run, number)) WITHOUT ROWID",
}
_GITIGNORE = """\
# Runs stay out of version control; their configuration may be committed.
/*
!/config.kdl
!/self-check
!/workflows/
"""

_ERRORS: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: (
        "the disk that holds {path} is full, so nothing more was recorded",
        "free disk space and repeat the command; a run continues after its last recorded stage",
    ),
    sqlite3.SQLITE_READONLY: (
        "{path} cannot be written, so nothing more was recorded",
        "make the file and its directory writable, and resume the run",
    ),
    sqlite3.SQLITE_NOTADB: (
        "{path} is not a database, or its beginning is damaged",
        "nothing was changed; restore it from a backup, or move it away to start an empty store",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "{path} is damaged",
        "nothing was changed; restore it from a backup, together with the files named like it",
    ),
    sqlite3.SQLITE_BUSY: (
        "another process has kept {path} locked for a minute",
        "stop that process, or wait for it, and resume the run",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "{path} cannot be opened",
        "check that the file, its directory and the disk exist and can be read and written",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk that holds {path} failed or is full",
        "check the disk and repeat the command; a run continues after its last recorded stage",
    ),
}


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system raise about a database into a JournalError."""
    try:
        yield
    except OSError as error:
        help = "check that the store's directory exists and can be read and written"
        raise JournalError(f"{error.filename or path}: {error.strerror}", help=help) from error
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # What SQLite quotes from a damaged schema need not be UTF-8, and Python then cannot make its error of it.
        unknown = sqlite3.SQLITE_CORRUPT if isinstance(error, UnicodeDecodeError) else 0
        code = getattr(error, "sqlite_errorcode", unknown) & 0xFF  # the other bits say which call it was
        message, help = _ERRORS.get(code, ("{path} cannot be used", "nothing was changed"))
        raise JournalError(f"{message.format(path=path)} ({error})", help=help) from error


def create_store(directory: Path) -> None:
    """Create the directory and an empty database in it, unless they exist.

    The database is built elsewhere and linked to its name at the end, unless another process was quicker.
    """
    directory.mkdir(parents=True, exist_ok=True)
    ignore = directory / ".gitignore"
    if not ignore.exists():
        ignore.write_text(_GITIGNORE)
    if database_exists(directory / DATABASE):
        return
    with TemporaryDirectory(prefix="new-", dir=directory) as workshop:
        draft = Path(workshop, DATABASE)
        database = sqlite3.connect(draft, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode=WAL")
            _create_tables(database)
        finally:
            database.close()
        try:
            os.link(draft, directory / DATABASE)
        except FileExistsError:
            return
    for changed in (directory, directory.parent):
        sync_directory(changed)


def database_exists(path: Path) -> bool:
    """Return whether there is a database, or raise JournalError if only a part of one is left.

    Another process may be creating it. Its log is created after it, so the log is looked at first.
    """
    has_log, size = bool(_size(_log(path))), _size(path)
    if size:
        return True
    if size is not None or has_log:
        raise JournalError(
            f"{path} is {'missing' if size is None else 'empty'}, but awf has used it before",
            help=f"restore it from a backup; to start an empty store, move away all files named {path.name}*",
        )
    return False


def open_database(path: Path) -> sqlite3.Connection:
    """Return a connection to a database, read-only if it cannot be written."""
    is_writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    database = _connect(path, "mode=rw") if is_writable else _open_read_only(path)
    database.execute("PRAGMA synchronous=FULL")
    database.execute("PRAGMA cell_size_check=ON")
    if not is_writable:
        database.execute("PRAGMA query_only=ON")
    return database


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    database = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, isolation_level=None, timeout=_TIMEOUT)
    try:
        schema = database.execute("PRAGMA user_version").fetchone()[0]  # reads the file, and opens the log
    except BaseException:
        database.close()
        raise
    if schema == SCHEMA:
        return database
    database.close()
    if schema < 1:
        message = f"{path} is a database, but not a journal of awf"
        raise JournalError(message, help="move it away, or use another store")
    version = "an older" if schema < SCHEMA else "a newer"
    message = f"{path} was written by {version} awf (schema {schema}, this one uses {SCHEMA})"
    raise JournalError(message, help="use that version, or begin a new store with --store DIR; nothing was changed")


def _create_tables(database: sqlite3.Connection) -> None:
    for name, columns in _TABLES.items():
        database.execute(f"CREATE TABLE IF NOT EXISTS {name} {columns}")
    database.execute(f"PRAGMA user_version={SCHEMA}")


def _open_read_only(path: Path) -> sqlite3.Connection:
    """Connect without writing. SQLite needs an index of the log, which may be missing and cannot be created then."""
    try:
        return _connect(path, "mode=ro")
    except sqlite3.OperationalError:
        if not _size(_log(path)):
            return _connect(path, "mode=ro&immutable=1")
    with TemporaryDirectory(prefix="awf-") as copy:  # the open connection outlives the names of its files
        for part in (path, _log(path)):
            shutil.copyfile(part, Path(copy, part.name))
        return _connect(Path(copy, path.name), "mode=rw")


def _log(path: Path) -> Path:
    return Path(f"{path}-wal")


def _size(path: Path) -> int | None:
    """Return the size of a file; None if it does not exist."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _file_ids(*paths: Path) -> list[tuple[int, int]]:
    """Return which files some paths refer to; empty if one is missing."""
    try:
        return [(status.st_dev, status.st_ino) for status in (path.stat() for path in paths)]
    except FileNotFoundError:
        return []


class SqliteJournal:
    """The runs of one store. The store is created with its first run or ledger line; until then there are none."""

    def __init__(self, directory: Path, *, now: Callable[[], float] = time.time) -> None:
        self._directory = directory.absolute()
        self._path = self._directory / DATABASE
        self._files = (self._path, _log(self._path), Path(f"{self._path}-shm"))
        self._now = now
        self._database: sqlite3.Connection | None = None
        self._file_ids: list[tuple[int, int]] = []

    def create(self, run_id: str, record: "AnyRecord") -> None:
        check_run_id(run_id)
        body = _encode(record)
        with self._transaction(create=True) as database:
            if self._find_run(run_id) is not None:
                raise run_exists(run_id)
            number = database.execute("INSERT INTO runs (name) VALUES (?)", (run_id,)).lastrowid
            database.execute("INSERT INTO records VALUES (?, 1, ?)", (number, body))

    def append(self, run_id: str, record: "AnyRecord", *, attached: str = "", lines: Sequence[str] = ()) -> int:
        body, number = _encode(record), self._run_number(run_id)
        with self._transaction() as database:
            newest = database.execute("SELECT max(seq) FROM records WHERE run = ?", (number,)).fetchone()[0]
            if newest is None:
                raise damaged_record(f"run {run_id}", 1, "it is missing")
            insert_record(database, number, newest + 1, body, attached)
            insert_lines(database, lines)
        return int(newest) + 1

    def append_ledger(self, lines: Iterable[str]) -> int:
        with self._transaction(create=True) as database:
            return insert_lines(database, lines)

    def attached(self, run_id: str, seq: int) -> str:
        values = (self._run_number(run_id), seq)
        rows = self._query("SELECT body FROM attachments WHERE run = ? AND seq = ?", values)
        try:
            return unpack_text(rows[0][0]) if rows else ""
        except ATTACHMENT_ERRORS as error:
            raise damaged_record(f"run {run_id}", seq, "the text attached to it cannot be read") from error

    def entries(self, run_id: str, after: int = 0) -> "Iterator[JournalEntry]":
        query = "SELECT seq, body FROM records WHERE run = ? AND seq > ? ORDER BY seq"
        rows = self._read(f"run {run_id}", query, (self._run_number(run_id),), after)
        return (_entry(run_id, seq, body) for seq, body in rows)

    def last(self, run_id: str) -> "JournalEntry":
        return _entry(run_id, *self._newest(run_id))

    def last_kind(self, run_id: str) -> str:
        seq, body = self._newest(run_id)
        try:
            return str(json.loads(body)["kind"])
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise damaged_record(f"run {run_id}", seq, "it has no kind") from error

    def _newest(self, run_id: str) -> tuple[int, bytes]:
        query = "SELECT seq, body FROM records WHERE run = ? ORDER BY seq DESC LIMIT 1"
        rows = self._query(query, (self._run_number(run_id),))
        if not rows:
            raise damaged_record(f"run {run_id}", 1, "it is missing")
        seq, body = rows[0]
        return seq, body

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        query = "SELECT seq, line FROM ledger WHERE seq > ? ORDER BY seq"
        for seq, line in self._read("the ledger", query, (), after):
            try:
                yield seq, line.decode(errors="surrogatepass")
            except UnicodeDecodeError as error:
                raise damaged_record("the ledger", seq, "it is not text") from error

    def runs(self) -> Sequence[str]:
        return tuple(self._check(name, str) for (name,) in self._query("SELECT name FROM runs ORDER BY number"))

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        check_run_id(run_id)
        return lock_run(self._directory / LOCKS, run_id, self._now)

    def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with translate_errors(self._path):
                database.close()

    def _run_number(self, run_id: str) -> int:
        number = self._find_run(run_id)
        if number is None:
            raise UnknownRun(f"there is no run {run_id} in {self._directory}")
        return number

    def _find_run(self, run_id: str) -> int | None:
        rows = self._query("SELECT number FROM runs WHERE name = ?", (run_id,))
        return self._check(rows[0][0], int) if rows else None

    def _check(self, value: Any, kind: type[Any]) -> Any:
        if not isinstance(value, kind):
            message = f"the list of runs in {self._path} is damaged"
            raise JournalError(message, help="nothing was changed; restore it from a backup")
        return value

    def _read(self, owner: str, query: str, values: tuple[Any, ...], after: int) -> Iterator[tuple[int, bytes]]:
        """Yield numbered rows from the one after `after`, or raise JournalError at a gap."""
        while rows := self._query(f"{query} LIMIT {_BATCH}", (*values, after)):
            for seq, body in rows:
                if seq != after + 1:
                    raise damaged_record(owner, after + 1, "it is missing")
                if not isinstance(body, bytes):
                    raise damaged_record(owner, seq, "it was changed by hand")
                after = seq
                yield seq, body

    def _query(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with translate_errors(self._path):
            if self._database is None and not database_exists(self._path):
                return []
            return self._open().execute(query, values).fetchall()

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = open_database(self._path)
            self._file_ids = _file_ids(*self._files)
        return self._database

    @contextmanager
    def _transaction(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Commit what is done in the context, or nothing. A store that was open and vanished is not created again."""
        with translate_errors(self._path):
            if create and self._database is None:
                create_store(self._directory)
            database = self._open()
            if _file_ids(*self._files) != self._file_ids:
                raise JournalError(
                    f"{self._path} was removed or replaced while it was in use, so nothing more was recorded",
                    help="put the store back, and resume the run",
                )
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")


def insert_record(database: sqlite3.Connection, run: int, seq: int, body: bytes, attached: str) -> None:
    """Add a record and the text attached to it."""
    database.execute("INSERT INTO records VALUES (?, ?, ?)", (run, seq, body))
    if attached:
        database.execute("INSERT INTO attachments VALUES (?, ?, ?)", (run, seq, pack_text(attached)))


def insert_lines(database: sqlite3.Connection, lines: Iterable[str]) -> int:
    """Add lines to the ledger; return the number of its last line."""
    number: int = database.execute("SELECT max(seq) FROM ledger").fetchone()[0] or 0
    for line in lines:
        number += 1
        database.execute("INSERT INTO ledger VALUES (?, ?)", (number, line.encode(errors="surrogatepass")))
    return number


class StoreHeads:
    """How far each run of a store has come, for callers that poll. It only reads, and belongs to one thread."""

    def __init__(self, directory: Path) -> None:
        self._path = directory.absolute() / DATABASE
        self._database: sqlite3.Connection | None = None
        self._file_ids: list[tuple[int, int]] = []
        self._version = 0

    def changed(self) -> bool:
        """Return whether anything may be new since the last call; always true for the first one."""
        with translate_errors(self._path):
            database = self._open()
            version = database.execute("PRAGMA data_version").fetchone()[0] if database else 0
        before, self._version = self._version, version
        return before != version or not version

    def read(self) -> dict[str, int]:
        """Return the number of each run's last record, oldest run first, and of the ledger's last line as `LEDGER`."""
        with translate_errors(self._path):
            if (database := self._open()) is None:
                return {}
            lines = database.execute("SELECT max(seq) FROM ledger").fetchone()[0]
            newest = "SELECT name, (SELECT max(seq) FROM records WHERE run = number) FROM runs ORDER BY number"
            return {LEDGER: lines or 0, **{name: seq or 0 for name, seq in database.execute(newest)}}

    def close(self) -> None:
        """Release the store; the next call opens it again."""
        database, self._database, self._version = self._database, None, 0
        if database is not None:
            database.close()

    def _open(self) -> sqlite3.Connection | None:
        """Return a connection to the database that has the name now; another one may have replaced it."""
        file_ids = _file_ids(self._path)
        if file_ids != self._file_ids:
            self.close()
            self._file_ids = file_ids
        if self._database is None and database_exists(self._path):
            self._database = open_database(self._path)
            self._database.execute("PRAGMA query_only=ON")
        return self._database


def _encode(record: "AnyRecord") -> bytes:
    from pipeline.journal.codec import encode  # noqa: PLC0415 - who reads findings needs no records, and saves 30 ms

    return encode(record)


def _entry(run_id: str, seq: int, body: bytes) -> "JournalEntry":
    from pipeline.engine.ports import JournalEntry  # noqa: PLC0415 - as above
    from pipeline.journal.codec import decode  # noqa: PLC0415 - as above

    return JournalEntry(seq, decode(body, run_id, seq))
