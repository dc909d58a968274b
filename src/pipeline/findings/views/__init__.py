"""The files in which people and agents see findings, written from the ledger, which alone decides what is true.

Only a status is read back from them. Whatever else was changed in them is put back.
"""

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings import VIEWS
from pipeline.findings.events import Pass
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.git import main_checkout
from pipeline.findings.ledger import Ledger, LedgerStore
from pipeline.findings.reviews import review
from pipeline.findings.views.record_store import NO_TRUST, Trust
from pipeline.findings.views.records import PASS, RecordDirectory
from pipeline.findings.views.stamps import Copies, explain_errors
from pipeline.findings.views.verdict_file import VerdictFile, report_name

FILE = "file"  # who edited a file outside of any stage


@dataclass(frozen=True, slots=True)
class ViewsWritten:
    """Problems with the files, and a line for the end of a report that says how to keep records."""

    problems: tuple[str, ...] = ()
    suggestion: str = ""


class Views:
    """The files about the findings of one repository, in its main checkout."""

    def __init__(self, root: Path, store: Path, trust: Trust = NO_TRUST) -> None:
        self.root = main_checkout(root)
        self._copies = Copies(store, self.root)
        self._records = RecordDirectory(self.root, store, trust)
        self._verdict = VerdictFile(self.root, store)

    @property
    def exist(self) -> bool:
        """Whether there may be such files."""
        return any(os.path.lexists(self.root / name) for name in VIEWS)

    def look(self, store: LedgerStore, at: str, by: str = FILE) -> ViewEdits:
        """Add what was said in the files to the ledger, and put the files back; return what was said and the problems.

        Every command looks before it answers, those that only read as well. Files that cannot be written are a problem
        for the next command that has something to write.
        """
        edits = self.read_edits(store.ledger(), at, by, every=True)
        store.append(edits.events)
        try:
            problems = self.write(store.ledger()).problems
        except AwfError as error:
            problems = (error.message,)
        return ViewEdits(edits.events, tuple(dict.fromkeys((*edits.problems, *problems))))

    def read_edits(self, ledger: Ledger, at: str, by: str = FILE, *, every: bool = False) -> ViewEdits:
        """Return what was said in the files since awf wrote them, and a sentence about each that will be put back.

        What is said of one finding in both places is said once. Archived verdicts are looked at if `every` file is: no
        stage does, since after a thousand rounds there are as many.
        """
        if not self.exist:
            return ViewEdits()
        records, copies = ViewEdits(), tuple[str, ...]()
        if self._records.loaded:
            records = self._records.read_edits(ledger, at, by)
        if self._records.loaded or every:
            copies = self._copies.find_edited("" if every else PASS)
        verdict = self._verdict.read_edits(ledger, at, by, records.events)
        return ViewEdits(records.events + verdict.events, records.problems + verdict.problems + copies)

    def write(self, ledger: Ledger, passed: Pass | None = None) -> ViewsWritten:
        """Bring all files up to date, after a pass or after anything else. Only those that changed are written.

        The record of the last pass is written if a kill prevented that, but not once somebody has said more.
        Written again at any time, as after a kill, they come out the same.
        """
        last = passed or ledger.last
        if last is None and not ledger.findings:
            return ViewsWritten()
        self._copies.restore()
        stale = not self._verdict.shows(ledger)
        problems = self._verdict.write(ledger)
        if last is not None and stale and (path := self._verdict.report_of(ledger, last)):
            self._write_report(ledger, last, path)  # after a triage, too: it always says what is open
        if self._records.loaded:
            if last and self._records.lacks(last) and (passed is not None or not _has_moved_on(ledger, last)):
                problems += self._records.write_pass(review(ledger, last), last)
            problems += self._records.write_findings(ledger)
        return ViewsWritten(tuple(problems), self._records.suggestion())

    def write_report(self, ledger: Ledger, passed: Pass, directory: str) -> tuple[str, list[str]]:
        """Write the report of a pass's review into a directory of the repository; return its path and problems.

        The verdict file names it, and every later pass of the review writes it again. A quick review has none: its path
        is empty.
        """
        if passed.mode == "quick":
            return "", []
        path = report_path(ledger, passed, directory)
        self._write_report(ledger, passed, path)
        if ledger.last is not None and ledger.last.review == passed.review:
            return path, self._verdict.set_report(ledger, path)
        return path, [f"the verdict file is of another review; it does not name {path}"]

    def _write_report(self, ledger: Ledger, passed: Pass, path: str) -> None:
        from pipeline.findings.formats import markdown  # noqa: PLC0415 - templates take long to load

        folder = (self.root / path).parent
        if not files.is_inside(self.root, folder):
            raise AwfError(f"{folder.name} leads out of the repository", help="set another place for reports")
        with explain_errors(f"{PurePosixPath(path).parent} cannot be used"):
            folder.mkdir(parents=True, exist_ok=True)
            text = markdown.write_review(review(ledger, passed))
            files.write_file(self.root / path, text.encode(), sync=False)


def _has_moved_on(ledger: Ledger, last: Pass) -> bool:
    """Return whether anything was said after the last pass: its record would say what was not so at the time."""
    return any(
        numbers[-1] == len(ledger.passes) and ledger.findings[id].history[-1].pass_id != last.id
        for id, numbers in ledger.passes_before.items()
    )


def report_path(ledger: Ledger, passed: Pass, directory: str) -> str:
    """Return where the report of a pass's review is, from the root of the repository.

    Raises AwfError for a place outside of it. Every pass of a review has the same path, that of the first.
    """
    folder = PurePosixPath(directory)
    if folder.is_absolute() or not folder.parts or {"..", ".git"}.intersection(folder.parts):
        raise AwfError(
            f"reports cannot be written to {directory!a}", help="name a directory below the repository's root"
        )
    return str(folder / report_name(ledger, passed))
