"""The files in which people and agents see findings, and edit them. The ledger decides what is true."""

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pipeline import files
from pipeline.backends.checkout import VIEWS
from pipeline.errors import AwfError
from pipeline.findings.events import Pass
from pipeline.findings.formats import markdown
from pipeline.findings.formats.record import render_pass
from pipeline.findings.formats.view_edits import ViewEdits, join_edits
from pipeline.findings.git import main_checkout
from pipeline.findings.ledger import Ledger
from pipeline.findings.reviews import full_review_pass, review_ids, review_of
from pipeline.findings.views.record_store import NO_TRUST, Trust
from pipeline.findings.views.records import RecordDirectory
from pipeline.findings.views.stamps import Stamps, explain_errors
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
        self._records.restore_passes()
        problems = self.record_pass(ledger, passed)
        problems += self._verdict.write(ledger, passed, at)
        problems += self._records.write_findings(ledger, at, FILE)
        self._stamps.save()
        return ViewsWritten(tuple(problems), self._records.suggestion())

    def why_not_verifiable(self) -> str:
        """Why there is no verdict that a verification could be about; empty if there is one."""
        return self._verdict.why_not_verifiable()

    def write_report(self, ledger: Ledger, passed: Pass, directory: str) -> tuple[str, list[str]]:
        """Write the report of a pass's review into a directory of the repository; return its path and problems.

        The verdict file names it. A quick review has none: its path is empty.
        """
        if passed.mode == "quick":
            return "", []
        id = review_ids(ledger)[passed.id]
        path = report_path(passed, id, directory)
        folder = (self.root / path).parent
        if not files.is_inside(self.root, folder):
            raise AwfError(f"{directory} leads out of the repository", help="set another place for reports")
        with explain_errors(f"{directory} cannot be used"):
            folder.mkdir(parents=True, exist_ok=True)
            files.write_file(self.root / path, markdown.write_review(review_of(ledger, passed), id, ledger).encode())
        problem = self._verdict.set_report(id, path)
        self._stamps.save()
        return path, [problem] if problem else []

    def refresh(self, ledger: Ledger, at: str) -> tuple[str, ...]:
        """Write the files again after findings changed between passes; return problems."""
        self._records.restore_passes()
        problems = self._records.write_findings(ledger, at, FILE) + self._verdict.refresh(ledger, at)
        self._stamps.save()
        return tuple(problems)

    def restore(self, ledger: Ledger, at: str) -> tuple[str, ...]:
        """Undo the edits that are not allowed; return problems."""
        self._records.restore_passes()
        problems = self._verdict.restore(ledger, at) + self._records.write_findings(ledger, at, FILE)
        self._stamps.save()
        return tuple(problems)

    def record_pass(self, ledger: Ledger, passed: Pass) -> list[str]:
        """Write the record of a pass unless it exists, whatever became of its findings since; return problems.

        With the last pass of a full review, the record of that is written too.
        """
        if not self._records.loaded:
            return []
        review = review_of(ledger, passed)
        whole = full_review_pass(review) if passed.id == review.passes[-1].id else None  # the others keep their ids
        passes = [one for one in (passed, whole) if one and not self._records.has_pass(one)]
        records = (render_pass(one, ledger.findings, review.verdicts.shipping) for one in passes)
        return [problem for record in records for problem in self._records.write_pass(record)]


def report_path(passed: Pass, id: str, directory: str) -> str:
    """Where the report of a review is, from the root of the repository; raises AwfError for a place outside of it."""
    folder = PurePosixPath(directory)
    if folder.is_absolute() or not folder.parts or {"..", ".git"}.intersection(folder.parts):
        raise AwfError(
            f"reports cannot be written to {directory!a}", help="name a directory below the repository's root"
        )
    return str(folder / f"{passed.started_at[:10]}-{passed.scope}-{id}.md")
