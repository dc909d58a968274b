"""What awf wrote last, kept in the store: so that only files that changed since are read, and can be put back.

It is a cache: without it everything is read, and comes out the same.
"""

import json
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from pipeline import files

_FOLDER = "views"
_INDEX = "written.json"
_FORMAT = 1
Stamp = tuple[int, int, int]  # time of the content, time of any change, size


class Stamps:
    """The files of one repository as awf wrote them, each with the version that it shows."""

    def __init__(self, store: Path | None, root: Path) -> None:
        name = sha256(os.fsencode(root)).hexdigest()[:16]  # a store may have runs of several repositories
        self._folder = store / _FOLDER / name if store else None
        self._root = str(root)
        self._known: dict[str, tuple[str, Stamp]] | None = None  # by name; read at the first question
        self._changed = False

    def untouched(self, name: str, now: os.stat_result) -> bool:
        """Whether a file is as awf wrote it."""
        return self._by_name().get(name, ("", None))[1] == stamp_of(now)

    def shows(self, name: str, version: str) -> bool:
        """Whether awf wrote this version of a file last."""
        return self._by_name().get(name, (None,))[0] == version

    def wrote(self, path: Path, name: str, version: str) -> None:
        """Note a file that awf has just written, or found to be what it would write."""
        self._by_name()[name] = version, stamp_of(path.lstat())
        self._changed = True

    def keep(self, name: str, data: bytes) -> None:
        """Keep a copy of what was written, to put back."""
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
            files.write_file(self._folder / name, data)

    def kept(self, name: str) -> bytes | None:
        """The copy of what was written last."""
        with suppress(files.NotAFile, NotADirectoryError):
            return files.read_file(self._folder / name) if self._folder else None
        return None

    def save(self) -> None:
        """Keep what is known for the next process."""
        if not self._changed or self._folder is None or not self._folder.parents[1].is_dir():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        index = {"format": _FORMAT, "root": self._root, "files": self._by_name()}
        files.write_file(self._folder / _INDEX, json.dumps(index, separators=(",", ":")).encode())
        self._changed = False

    def _by_name(self) -> dict[str, tuple[str, Stamp]]:
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> dict[str, tuple[str, Stamp]]:
        """What an earlier process noted; nothing where that is damaged, or about another repository."""
        try:
            index = json.loads(self.kept(_INDEX) or b"null")
            if index["format"] != _FORMAT or index["root"] != self._root:
                return {}
            return {
                name: (version, (mtime, ctime, size))
                for name, (version, (mtime, ctime, size)) in index["files"].items()
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}


def stamp_of(about: os.stat_result) -> Stamp:
    """What changes when a file does. The second time cannot be set by whoever edits it."""
    return about.st_mtime_ns, about.st_ctime_ns, about.st_size
