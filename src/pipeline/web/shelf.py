"""The findings of a store, kept from one look to the next: only new lines of the ledger are read.

What somebody changed in the files about them is seen as the commands see it, and like there, looking writes nothing.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock

from pipeline.app.findings.ledger import LedgerSnapshot, apply_view_edits, find_repository, timestamp
from pipeline.app.findings.queries import ALL_STATES, FindingFilter, VerdictSummary, select, summarize_verdict
from pipeline.findings.formats.items import uncollected
from pipeline.findings.ledger import Ledger, apply_line
from pipeline.findings.model import Finding
from pipeline.findings.views import records as workspace
from pipeline.findings.views import verdict_file
from pipeline.journal.sqlite import SqliteJournal

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class View:
    """The findings as they stood at one look; nothing in it changes any more."""

    known: LedgerSnapshot
    findings: tuple[Finding, ...]  # all that stand for themselves, what matters most first
    standing: VerdictSummary
    stages: tuple[str, ...]
    reviewers: tuple[str, ...]
    files: tuple[str, ...]


class FindingsCache:
    """The findings of one store. Several threads may ask at once."""

    def __init__(
        self, store: Path, opened: Callable[[], SqliteJournal] | None = None, around: Path | None = None
    ) -> None:
        self._opened = opened or partial(SqliteJournal, store)
        self._around = around or store.parent
        self._lock = Lock()
        self._root: Path | None = None
        self._ledger = Ledger()
        self._last = (0, "")  # the last line that was read, to know another ledger by
        self._seen: tuple[tuple[int, str], Stamp] | None = None
        self._view: View | None = None
        self._untouched: Stamp | None = ()  # the files as they were when nobody had changed anything in them

    @property
    def root(self) -> Path:
        """The repository around the store, or around where it is looked at: what its findings are about."""
        if self._root is None:
            self._root = find_repository(None, self._around, os.environ).root
        return self._root

    def look(self) -> View:
        """The findings as they stand now, whoever wrote them."""
        with self._lock, uncollected():
            self._read_on()
            seen = (self._last, tuple(_stamps(self.root)))
            if self._view is None or seen != self._seen:
                self._view, self._seen = _view(self._known(seen[1])), seen
            return self._view

    def _known(self, files: Stamp) -> LedgerSnapshot:
        """The ledger with what the files say. Those in which nothing was changed are not read again for a new line."""
        if files == self._untouched:
            return LedgerSnapshot(self._ledger.copy())
        known = apply_view_edits(self._ledger.copy(), self.root, timestamp(datetime.now(UTC)))
        same = known.ledger.findings == self._ledger.findings and not known.problems
        self._untouched = files if same else None
        return known

    def _read_on(self) -> None:
        """Take new lines in; the last one is read again, because another ledger may have taken the place of this."""
        with closing(self._opened()) as journal:
            lines = journal.ledger(max(self._last[0] - 1, 0))
            if self._last[0] and next(lines, None) != self._last:
                self._ledger, self._last, self._untouched = Ledger(), (0, ""), None
                lines = journal.ledger()
            for number, line in lines:
                apply_line(self._ledger, number, line)
                self._last = (number, line)


def _view(known: LedgerSnapshot) -> View:
    findings = tuple(select(known.ledger, FindingFilter(states=ALL_STATES)))
    votes = [vote for finding in findings for vote in finding.votes]
    return View(
        known,
        findings,
        summarize_verdict(known.ledger),
        tuple(sorted({vote.stage for vote in votes} - {""})),
        tuple(sorted({vote.reviewer for vote in votes} - {""})),
        tuple(sorted({place.path for finding in findings for place in finding.locations})),
    )


def _stamps(root: Path) -> Iterator[tuple[str, int, int]]:
    """What tells whether somebody wrote the files about findings: reading them all again would take long."""
    folders = {verdict_file.DIRECTORY: "review-", f"{workspace.DIRECTORY}/findings": "fnd_"}
    for folder, beginning in folders.items():
        try:
            entries = list(os.scandir(root / folder))
        except OSError:  # there are none, or nobody may read them: either way nothing is taken from them
            continue
        for entry in entries:
            if entry.name.startswith(beginning):
                status = entry.stat(follow_symlinks=False)
                yield entry.path, status.st_mtime_ns, status.st_size
