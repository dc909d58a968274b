"""The repository that findings are about. Outside of git everything still works, without commits."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.findings.repository import facts, top
from pipeline.findings.views.binding import Trust


@dataclass(frozen=True, slots=True)
class Repository:
    """Where files are read and views are written, and what git says of it."""

    root: Path
    environment: Mapping[str, str]
    head: str = ""  # the commit; nothing outside of git, or before the first one
    branch: str = ""
    trusted: tuple[str, ...] = ()  # the commands that the user lets take records

    @property
    def trust(self) -> Trust:
        """What the user allows the project's own store."""
        return Trust(self.trusted, self.environment)


def repository(
    given: Path | None, cwd: Path, environment: Mapping[str, str], trusted: tuple[str, ...] = ()
) -> Repository:
    """The directory that was given, or else the repository around the current one."""
    start = (given or cwd).absolute()
    root = start if given is not None else top(start, environment)
    return Repository(root, environment, *facts(start, environment), trusted)
