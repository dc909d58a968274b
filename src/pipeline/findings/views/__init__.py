"""The files in which people and agents see findings, and edit them. The ledger decides what is true."""

import os
from dataclasses import dataclass
from pathlib import Path

from pipeline.backends.checkout import VIEWS
from pipeline.findings.events import Pass
from pipeline.findings.formats.record import render_pass
from pipeline.findings.formats.view_edits import ViewEdits, join_edits
from pipeline.findings.git import main_checkout
from pipeline.findings.ledger import Ledger
from pipeline.findings.verdicts import Verdicts, ledger_verdicts
from pipeline.findings.views.record_store import NO_TRUST, Trust
from pipeline.findings.views.records import RecordDirectory
from pipeline.findings.views.stamps import Stamps
from pipeline.findings.views.verdict_file import VerdictFile

FILE = "file"  # who edited a file outside of any stage


@dataclass(frozen=True, slots=True)
class ViewsWritten:
    """Problems with the files of a pass, and a line for the end of a report that says how to keep records."""

    problems: tuple[str, ...] = ()
    suggestion: str = ""


class Views:
    """The files about the findings of one repository, in its main checkout."""

    def __init__(self, root: Path, store: Path | None = None, trust: Trust = NO_TRUST) -> None:
        self.root = main_checkout(root)
        self._stamps = Stamps(store, self.root)
        self._records = RecordDirectory(self.root, self._stamps, trust)
        self._verdict = VerdictFile(self.root, self._stamps, trust.environ)

    @property
    def exist(self) -> bool:
        """Whether there are such files, or were."""
        return self._verdict.exists or any(os.path.lexists(self.root / name) for name in VIEWS)

    def read_edits(self, ledger: Ledger, at: str, by: str = FILE) -> ViewEdits:
        """What was changed in the files since awf wrote them."""
        records = self._records.read_edits(ledger, at, by) if self._records.loaded else ViewEdits()
        return join_edits([records, self._verdict.read_edits(ledger, at, by)])

    def write(self, ledger: Ledger, passed: Pass, at: str) -> ViewsWritten:
        """Write the files of a pass. Written again at any time, they come out the same."""
        verdicts = ledger_verdicts(ledger, passed)
        problems = self.record_pass(ledger, passed, verdicts)
        problems += self._verdict.write(ledger, passed, verdicts, at)
        problems += self._records.write_findings(ledger, at, FILE)
        self._stamps.save()
        return ViewsWritten(tuple(problems), self._records.suggestion())

    def refresh(self, ledger: Ledger, at: str) -> tuple[str, ...]:
        """Write the files again after findings changed between passes; return problems."""
        problems = self._records.write_findings(ledger, at, FILE) + self._verdict.refresh(ledger, at)
        self._stamps.save()
        return tuple(problems)

    def restore(self, ledger: Ledger, at: str) -> tuple[str, ...]:
        """Undo the edits that are not allowed; return problems."""
        problems = self._verdict.restore(ledger, at) + self._records.write_findings(ledger, at, FILE)
        self._stamps.save()
        return tuple(problems)

    def record_pass(self, ledger: Ledger, passed: Pass, verdicts: Verdicts | None = None) -> list[str]:
        """Write the record of a pass unless it exists, whatever became of its findings since; return problems."""
        if not self._records.loaded or self._records.has_pass(passed):
            return []
        found = verdicts or ledger_verdicts(ledger, passed)
        return self._records.write_pass(render_pass(passed, ledger.findings, found.shipping))
