"""The store's directory and the database in it. The database appears whole or not at all, and is never begun anew."""

import os
import shutil
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.engine.ports import JournalError

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


def prepare(directory: Path) -> None:
    """Make the directory and an empty database in it, where they are missing."""
    directory.mkdir(parents=True, exist_ok=True)
    ignore = directory / ".gitignore"
    if not ignore.exists():
        ignore.write_text(_GITIGNORE)
    if not exists(directory / DATABASE):
        _make(directory)


def exists(path: Path) -> bool:
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


def parts(path: Path) -> tuple[str, ...]:
    """The files of an open database: itself, its log, and the log's index."""
    return str(path), f"{path}-wal", f"{path}-shm"


def identity(files: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Which files some names stand for; empty when one is missing."""
    try:
        seen = [os.stat(file) for file in files]  # noqa: PTH116 - asked at every append, and a path would cost more
    except FileNotFoundError:
        return ()
    return tuple((status.st_dev, status.st_ino) for status in seen)
