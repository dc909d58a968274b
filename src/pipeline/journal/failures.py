"""What went wrong with a database, as a sentence for the person who has to do something about it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.engine.ports import JournalError

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
def told(path: Path) -> Iterator[None]:
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
