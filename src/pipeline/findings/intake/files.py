"""The files that claims are checked against. Nothing outside the repository is ever opened, whatever a path says."""

import os
import stat
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from pipeline.findings.intake.paths import PathRefused, normalise

LARGEST = 4 * 1024 * 1024  # bytes of a file that is looked at
_HELD = 32  # files in memory; claims are looked at file by file
_KNOWN = 65_536  # paths whose place is remembered


class CurrentSources(Protocol):
    """The files of the repository as they are now."""

    def lines(self, path: str) -> Sequence[str] | None:
        """The lines of a file; None when there is no such file, or none that can be read."""
        ...

    def outside(self, path: str) -> bool:
        """Whether a path leads out of the repository, as a link can."""
        ...


class MemoryFiles:
    """Files that are only in memory: path to text."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._files = dict(files or {})

    def lines(self, path: str) -> Sequence[str] | None:
        """The lines of a file."""
        text = self._files.get(path)
        return None if text is None else split(text)

    def outside(self, path: str) -> bool:
        """Whether the path itself leads out: there are no links here."""
        return isinstance(normalise(path), PathRefused)


class RepositoryFiles:
    """The regular files under a directory; links are followed as long as they stay in it."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self._read = lru_cache(maxsize=_HELD)(self._lines)
        self._found = lru_cache(maxsize=_KNOWN)(self._place)

    def lines(self, path: str) -> Sequence[str] | None:
        """The lines of a file; None for anything but a regular file of the repository that is not too large."""
        return self._read(path)

    def outside(self, path: str) -> bool:
        """Whether the path leads out of the directory, by its own words or by a link."""
        return self._found(path) is None

    def _place(self, path: str) -> str | None:
        normal = normalise(path)
        if isinstance(normal, PathRefused):
            return None
        place = os.path.realpath(os.path.join(self._root, normal))  # noqa: PTH118 - `Path.resolve` raises for a loop
        inside = place == self._root or place.startswith(self._root.rstrip("/") + "/")
        return place if inside else None

    def _lines(self, path: str) -> tuple[str, ...] | None:
        place = self._found(path)
        content = _content(place) if place is not None else None
        return None if content is None else tuple(split(content.decode(errors="replace")))


def split(text: str) -> list[str]:
    """The lines of a text as editors count them: a form feed or a Unicode separator begins none."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _content(place: str) -> bytes | None:
    """What a regular file holds. Opening never waits, as it would for the other end of a pipe."""
    try:
        with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - a descriptor
            status = os.fstat(file.fileno())
            fit = stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST
            return file.read(LARGEST) if fit else None
    except OSError:  # not there, a directory, or not ours to read: either way, no file to check against
        return None
