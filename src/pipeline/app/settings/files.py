"""Where settings files are and how they are put together: the user's, and over it the project's."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.app.files import read_source
from pipeline.app.settings.read import read_settings
from pipeline.app.settings.values import NOTHING_SET, Level, Settings, settings_of
from pipeline.language.diagnostics import Diagnostic
from pipeline.language.rules import reading
from pipeline.language.rules.rule import Seen, settle
from pipeline.language.source import START, Source

NAME = "config.kdl"


@dataclass(frozen=True, slots=True)
class Places:
    """The two files, and how messages call them."""

    user: Path
    project: Path
    home: Path
    cwd: Path

    @classmethod
    def of(cls, cwd: Path, home: Path, environ: Mapping[str, str]) -> "Places":
        """The places for a working directory; a relative XDG_CONFIG_HOME means nothing, as its standard says."""
        given = Path(environ.get("XDG_CONFIG_HOME", ""))
        base = given if given.is_absolute() else home / ".config"
        return cls(base / "awf" / NAME, cwd / ".awf" / NAME, home, cwd)

    def shown(self, path: Path) -> str:
        """A path as a person would write it here."""
        if path == self.project or path.is_relative_to(self.cwd):
            return os.path.relpath(path, self.cwd)
        return f"~/{path.relative_to(self.home)}" if path.is_relative_to(self.home) else str(path)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings of both files, and what is wrong with them; with anything wrong they are not to be used."""

    settings: Settings
    wrong: tuple[tuple[Source, tuple[Diagnostic, ...]], ...] = ()
    ignored: str = ""  # what of the project's file is not used, in a sentence


def load_settings(places: Places) -> Loaded:
    """Read both files; one that is not there says nothing. A project names no program unless the user trusts it."""
    loaded = Loaded(NOTHING_SET)
    for level, path in ((Level.USER, places.user), (Level.PROJECT, places.project)):
        source, seen = _read(path, places.shown(path))
        file, found = read_settings(source) if not seen else (None, seen)
        if file is None:
            loaded = replace(loaded, wrong=(*loaded.wrong, (source, settle(source, found))))
            continue
        said, ignored = settings_of(file, source, level), ""
        if level is Level.PROJECT:
            project = places.project.parent.parent
            said, refused = said.harmless(trusted=_trusted(project, loaded.settings.trusted_projects))
            ignored = _ignored(source.name, refused, places)
        loaded = Loaded(loaded.settings.under(said), loaded.wrong, ignored)
    return loaded


def _trusted(project: Path, trusted: Iterable[str]) -> bool:
    return any(Path(path).resolve() == project.resolve() for path in trusted)


def _ignored(name: str, refused: tuple[str, ...], places: Places) -> str:
    if not refused:
        return ""
    allow = f'trust {{ project "{places.project.parent.parent.resolve()}" }}'
    return f"{name}: {', '.join(refused)} ignored; to use it, write {allow} in {places.shown(places.user)}"


def _read(path: Path, name: str) -> tuple[Source, list[Seen]]:
    try:
        return read_source(path, name)
    except (FileNotFoundError, NotADirectoryError):
        return Source(name, ""), []
    except OSError as error:
        why = f'"{name}" cannot be read: {error.strerror or error}'
        return Source(name, ""), reading.unreadable_file(START, why, "make it readable, or move it away")
