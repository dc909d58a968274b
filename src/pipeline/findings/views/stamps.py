"""What the store knows of files beside the ledger: the times of records, and copies of what is written once.

The times are a cache: if they are missing or wrong, records are read in full and compared with the ledger. The copies
are of what cannot be computed again, because it says what was so at the time: records of passes, archived verdicts.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.formats.view_edits import summed_up

PASSES = ".wystack/reviews"
VERDICTS = ".code-review"
_FOLDER = "views"
_INDEX = "written.json"
_FORMAT = 5
Stamp = tuple[int, int, int]  # time of the content, time of any change (which no program can set), size


class Written(NamedTuple):
    """A file as it was read or written last."""

    stamp: Stamp
    version: str  # of what it shows; empty if awf would write something else


class Stamps:
    """The records of one repository as they were read or written last."""

    def __init__(self, store: Path, root: Path) -> None:
        self._store = store
        self._folder = folder_of(store, root)
        self._about = [_FORMAT, str(root)]
        self._files: dict[str, Written] | None = None  # by name; read when they are first needed
        self._changed = False

    @property
    def files(self) -> dict[str, Written]:
        """The files by their names."""
        if self._files is None:
            self._files = self._load()
        return self._files

    def record(self, name: str, stamp: Stamp, version: str = "") -> None:
        """Note a file that was read or written."""
        self.files[name] = Written(stamp, version)
        self._changed = True

    def forget(self, name: str) -> None:
        """Forget a file that is gone, so that it is written again."""
        del self.files[name]
        self._changed = True

    def is_known(self, name: str, stamp: Stamp | None) -> bool:
        """Return whether a file is as it was read or written last, or does not exist."""
        return stamp is None or (name in self.files and self.files[name].stamp == stamp)

    def save(self) -> None:
        """Save the stamps for the next process: all of 10,000 take 10 ms."""
        if self._changed and self._store.is_dir():
            sound = {name: note for name, note in self.files.items() if note.version}
            self._folder.mkdir(parents=True, exist_ok=True)
            files.write_file(self._folder / _INDEX, json.dumps([self._about, sound]).encode(), sync=False)
            self._changed = False

    def _load(self) -> dict[str, Written]:
        """Return what earlier processes noted; nothing if that is damaged or about another repository."""
        try:
            about, notes = json.loads(_read(self._folder / _INDEX) or b"[0, {}]")
            found = {name: Written((*stamp,), version) for name, (stamp, version) in notes.items()}
        except (ValueError, TypeError, AttributeError, RecursionError):
            return {}
        return found if about == self._about else {}


class Copies:
    """The files of one repository that are written once: records of passes, and archived verdicts.

    A copy is named `LABEL=NAME`. The label of a record says of which pass it is; a verdict has none.
    """

    def __init__(self, store: Path, root: Path) -> None:
        self._root = root
        self._folder = folder_of(store, root) / "copies"
        self._seen: dict[Path, Stamp | None] = {}  # as it was written
        self._edited: dict[Path, bytes] = {}  # what is to be put back

    def has(self, label: str) -> bool:
        """Return whether a record was written under a label."""
        return any(self._folder.glob(f"{label}=*"))

    def create(self, name: str, data: bytes, label: str = "") -> bool:
        """Write a file, after its copy; return False, and do nothing, if it exists."""
        path = self._path(label, name)
        if os.path.lexists(path):
            return False
        self._folder.mkdir(parents=True, exist_ok=True)
        files.write_file(self._folder / f"{label}={name}", data, sync=False)
        files.write_file(path, data, sync=False)
        return True

    def find_edited(self, prefix: str = "") -> tuple[str, ...]:
        """Find the files that are to be put back; return a sentence about each that was not just removed."""
        self._edited, sentences = {}, list[str]()
        for copy in sorted(self._folder.glob(f"{prefix}*=*")):
            label, name = copy.name.split("=", 1)
            path = self._path(label, name)
            stamp = stamp_at(path)
            if (stamp and stamp == self._seen.get(path)) or not (stamp or label):  # an archived verdict may be removed
                continue
            data = _read(copy)
            if not data or _read(path) == data:  # a power cut leaves nothing of a copy
                self._seen[path] = stamp
                continue
            self._edited[path] = data
            if stamp:
                shown = path.relative_to(self._root)
                sentences.append(f"{shown} was put back: it is written once and cannot be edited")
        return summed_up(sentences, "directories of awf")

    def restore(self) -> None:
        """Write the files that were found edited or removed as they were."""
        for path, data in self._edited.items():
            with explain_errors(f"{path.relative_to(self._root)} cannot be written"):
                files.ensure_directory(path.parent, self._root)
                files.write_file(path, data, sync=False)
        self._edited = {}

    def _path(self, label: str, name: str) -> Path:
        return self._root / (PASSES if label else VERDICTS) / name


def folder_of(store: Path, root: Path) -> Path:
    """Return where a store keeps what is about one repository: it may hold runs of several."""
    return store / _FOLDER / sha256(os.fsencode(root)).hexdigest()[:16]


def _read(path: Path) -> bytes | None:
    """Return what is in a file; None if it cannot be read as one."""
    try:
        return files.read_file(path)
    except (files.NotAFile, NotADirectoryError):
        return None


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


@contextmanager
def explain_errors(problem: str) -> Iterator[None]:
    """Raise AwfError for a file or directory that cannot be used."""
    try:
        yield
    except OSError as error:
        raise AwfError(f"{problem}: {error.strerror}", help="make it readable and writable, and resume") from error
