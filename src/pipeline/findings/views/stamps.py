"""The files of views as awf wrote them last, noted in the store so that only files that changed since are read.

The stamps are a cache: if they are missing or wrong, files are read in full and compared with the ledger. The copies
hold what cannot be computed again: the records of passes, and the verdict that an edited file is compared with.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import files
from pipeline.errors import AwfError

_FOLDER = "views"
_INDEX = "written.jsonl"
_FORMAT = 4
_SPARE = 100  # outdated lines of an index that are not worth writing it anew
Stamp = tuple[int, int, int]  # time of the content, time of any change (which no program can set), size


class Written(NamedTuple):
    """A file as awf wrote it."""

    stamp: Stamp
    version: str  # of what it shows


class Stamps:
    """The files of one repository as awf wrote them."""

    def __init__(self, store: Path, root: Path) -> None:
        name = sha256(os.fsencode(root)).hexdigest()[:16]  # a store may hold runs of several repositories
        self._store = store
        self._folder = store / _FOLDER / name
        self._header = _line(_FORMAT, str(root))
        self._files: dict[str, Written] | None = None  # by name; read when they are first needed
        self._changed: set[str] = set()  # names that are not saved yet
        self._lines = 0  # of the saved index; 0 if there is none that can be added to

    @property
    def files(self) -> dict[str, Written]:
        """The files by their names."""
        if self._files is None:
            self._files = self._load()
        return self._files

    def record(self, name: str, stamp: Stamp, version: str) -> None:
        """Note a file that has the content that awf would write."""
        self.files[name] = Written(stamp, version)
        self._changed.add(name)

    def forget(self, *names: str) -> None:
        """Forget these files, so that they are written again."""
        self._changed.update(name for name in names if self.files.pop(name, None))

    def save_copy(self, name: str, data: bytes) -> None:
        """Keep a copy of what is written."""
        self._folder.mkdir(parents=True, exist_ok=True)
        files.write_file(self._folder / name, data, sync=False)

    def read_copy(self, name: str) -> bytes | None:
        """Return the copy of what was written last."""
        with suppress(files.NotAFile, NotADirectoryError):
            return files.read_file(self._folder / name)
        return None

    def copies(self, prefix: str) -> list[str]:
        """Return the names of copies that begin like this."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return sorted(path.name for path in self._folder.glob(f"{prefix}*"))
        return []

    def save(self) -> None:
        """Save the stamps for the next process. A stage adds a few lines: all of 10,000 files take 10 ms to write."""
        if not self._changed or not self._store.is_dir():
            return
        known, added = self.files, b"".join(_line(name, self.files.get(name)) for name in self._changed)
        is_worthwhile = 0 < self._lines < 2 * len(known) + _SPARE
        if is_worthwhile and files.append_file(self._folder / _INDEX, added):
            self._lines += len(self._changed)
        else:
            self.save_copy(_INDEX, self._header + b"".join(_line(*note) for note in known.items()))
            self._lines = len(known) + 1
        self._changed.clear()

    def _load(self) -> dict[str, Written]:
        """Return what earlier processes noted; nothing if that is damaged or about another repository."""
        header, *lines = (self.read_copy(_INDEX) or b"").splitlines(keepends=True) or [b""]
        if header != self._header:
            return {}
        try:
            notes = dict(json.loads(b"[%s]" % b",".join(lines)))  # the last line about a file counts
            found = {name: Written((*note[0],), note[1]) for name, note in notes.items() if note}
        except (ValueError, TypeError, LookupError, RecursionError):
            return {}
        self._lines = len(lines) + 1
        return found


def _line(*values: Any) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what changes when a file does."""
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


def stamp_at(path: Path) -> Stamp | None:
    """Return what changes when the file at a path does; None if there is none, as below what is no directory."""
    try:
        return stamp_of(path.lstat())
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def has_content(path: Path, data: bytes) -> bool:
    """Return whether a file has exactly this content."""
    try:
        return files.read_file(path, len(data)) == data
    except (files.NotAFile, FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def explain_errors(problem: str) -> Iterator[None]:
    """Raise AwfError for a file or directory that cannot be used."""
    try:
        yield
    except OSError as error:
        raise AwfError(f"{problem}: {error.strerror}", help="make it readable and writable, and resume") from error
