"""Where the runs of a store really are, and how something is done about them: on this machine or on a cluster."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pipeline.app.history import AttemptArtifacts
from pipeline.app.store import RunStore, open_local_store
from pipeline.journal.lock import is_driven
from pipeline.journal.sqlite import SqliteJournal
from pipeline.redaction import PATTERNS_ONLY, Redactor


class Place(Protocol):
    """A place of runs. Its directory is a store that can be read, be it the place itself or a copy of it."""

    @property
    def name(self) -> str:
        """What its pages are called."""

    @property
    def title(self) -> str:
        """Where it is, in full."""

    @property
    def directory(self) -> Path:
        """The store that is read."""

    @property
    def project(self) -> Path:
        """Where its runs are started."""

    @property
    def options(self) -> Sequence[str]:
        """What a command is told that is to start a run there, or to take one up."""

    @property
    def apart(self) -> bool:
        """Whether each run has a ledger of its own, which is only shown here."""

    def open(self) -> AbstractContextManager[RunStore]:
        """The store to act on, for the calling thread."""

    def driven(self, run_id: str) -> bool | None:
        """Whether somebody is at a run; None when nobody knows."""

    def away(self) -> str:
        """What of it does not answer; nothing when all of it does."""

    def troubles(self) -> Sequence[str]:
        """What is wrong with some of its runs."""

    def ledgers(self) -> Sequence[str]:
        """The runs with a ledger of their own, the newest first."""

    def ledger(self, run_id: str) -> SqliteJournal:
        """A journal whose ledger has what is known about a run's findings."""

    def fetch_files(self, found: AttemptArtifacts) -> None:
        """Have the files of an attempt in the directory, as far as they are written."""

    def refresh(self, run_id: str) -> None:
        """Have the directory show a run as it stands now."""


class Here:
    """A store of this machine."""

    apart = False

    def __init__(self, directory: Path, redactor: Redactor = PATTERNS_ONLY) -> None:
        self.directory = directory
        self.title = str(directory)
        self.options = (f"--store={directory}",)
        self._redactor = redactor

    def open(self) -> AbstractContextManager[RunStore]:
        """The store itself."""
        return open_local_store(self.directory, self._redactor)

    @property
    def name(self) -> str:
        """That of its directory, or of its project when it is an `.awf`."""
        return self.directory.parent.name if self.directory.name == ".awf" else self.directory.name

    @property
    def project(self) -> Path:
        """The directory that an `.awf` is in."""
        return self.directory.parent if self.directory.name == ".awf" else Path.cwd()

    def driven(self, run_id: str) -> bool | None:
        """Whether a process is at a run."""
        return is_driven(self.directory, run_id)

    def away(self) -> str:
        """A disk does not go away; whoever reads it is told what is wrong."""
        return ""

    def troubles(self) -> Sequence[str]:
        """A run that cannot be read is shown as such."""
        return ()

    def ledgers(self) -> Sequence[str]:
        """All runs share one."""
        return ()

    def ledger(self, run_id: str) -> SqliteJournal:
        """The store's own."""
        del run_id
        return SqliteJournal(self.directory)

    def fetch_files(self, found: AttemptArtifacts) -> None:
        """They are there."""

    def refresh(self, run_id: str) -> None:
        """It does."""
