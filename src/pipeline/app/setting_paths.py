"""Where settings are kept. Loading this module costs nothing, which matters to commands that need no settings."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = "config.kdl"


@dataclass(frozen=True, slots=True)
class SettingsPaths:
    """The two settings files, and how messages name them."""

    user: Path
    project: Path
    home: Path
    cwd: Path

    @classmethod
    def of(cls, project: Path, home: Path, environ: Mapping[str, str], cwd: Path | None = None) -> "SettingsPaths":
        """Return the files for a project; a relative XDG_CONFIG_HOME is ignored, as its standard says."""
        given = Path(environ.get("XDG_CONFIG_HOME", ""))
        base = given if given.is_absolute() else home / ".config"
        return cls(base / "awf" / FILE_NAME, project / ".awf" / FILE_NAME, home, cwd or project)

    @property
    def exist(self) -> bool:
        """Whether anything is set up: one of them is there, whatever it is."""
        return os.path.lexists(self.user) or os.path.lexists(self.project)

    def display(self, path: Path) -> str:
        """Return a path as a person would write it here."""
        if path == self.project or path.is_relative_to(self.cwd):
            return os.path.relpath(path, self.cwd)
        return f"~/{path.relative_to(self.home)}" if path.is_relative_to(self.home) else str(path)
