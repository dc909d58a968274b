"""The files that show findings to people and agents, and bring back what they changed. The ledger has the truth."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.backends.checkout import VIEWS
from pipeline.findings.events import Pass
from pipeline.findings.formats import strict_json as strict
from pipeline.findings.formats import verdict
from pipeline.findings.formats.record import pass_record, tree_changed
from pipeline.findings.formats.verdict_view import SEALED_TOP
from pipeline.findings.formats.view_edits import ViewEdits, sealed
from pipeline.findings.git import main_checkout
from pipeline.findings.ingest import review_id
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding
from pipeline.findings.verdicts import Shipping, Verdicts, verdicts
from pipeline.findings.views import verdict_file
from pipeline.findings.views.ignoring import ensure_git_ignored
from pipeline.findings.views.record_store import NO_TRUST, Trust
from pipeline.findings.views.records import DIRECTORY, FILE, RecordDirectory
from pipeline.findings.views.stamps import Stamps
from pipeline.findings.views.verdict_file import VerdictFile
from pipeline.findings.views.written import ViewsWritten


def ledger_verdicts(ledger: Ledger, passed: Pass | None = None) -> Verdicts:
    """The verdicts on all findings, with who answered in a pass, or in the last one."""
    last = passed or ledger.last
    said = last.reviewer_verdicts if last else ()
    found = verdicts(ledger, ledger.coverage(passed), said)
    if last and tree_changed(last) and found.shipping is Shipping.SHIP:
        return replace(found, shipping=Shipping.BLOCK_ON_REJECTION)
    return found


class Views:
    """The files about findings of one repository, in its main checkout."""

    def __init__(self, root: Path, store: Path | None = None, trust: Trust = NO_TRUST) -> None:
        self.root = main_checkout(root)
        stamps = Stamps(store, self.root)
        self._environ = trust.environ
        self._records = RecordDirectory(self.root, stamps, trust)
        self._file = VerdictFile(self.root, stamps)

    @property
    def there(self) -> bool:
        """Whether there are files that show findings, or were."""
        return self._file.there or any(os.path.lexists(self.root / name) for name in VIEWS)

    def take_back(self, ledger: Ledger, at: str, by: str = FILE) -> ViewEdits:
        """What somebody changed in the files since they were written."""
        records = self._records.read_edits(ledger, at=at, by=by) if self._records.loaded else ViewEdits()
        return records + self._file.read_edits(ledger.findings.values(), at=at, by=by)

    def put_back(self, ledger: Ledger, at: str) -> tuple[str, ...]:
        """Undo what may not be changed in the files; what was odd about that."""
        self._file.put_back()
        return self._records.write_findings(ledger.findings.values(), at=at).problems if self._records.loaded else ()

    def show(self, ledger: Ledger, passed: Pass, at: str) -> ViewsWritten:
        """Write the files of a pass. They can be written again at any time, and come out the same."""
        unignored = ensure_git_ignored(self.root, verdict_file.DIRECTORY, self._environ)
        done = [
            ViewsWritten(problems=(unignored,) if unignored else ()),
            self.record_pass(ledger, passed),
            self._verdict(ledger, passed, ledger_verdicts(ledger, passed), at),
            self._records.write_findings(ledger.findings.values(), at=at),
        ]
        problems = tuple(problem for written in done for problem in written.problems)
        suggestion = next((written.suggestion for written in done if written.suggestion), "")
        return ViewsWritten(problems=problems, suggestion=suggestion)

    def reshow(self, ledger: Ledger, at: str) -> tuple[str, ...]:
        """Write the files again after findings changed between passes; what was odd about that."""
        records = self._records.write_findings(ledger.findings.values(), at=at).problems if self._records.loaded else ()
        return records + self._latest(ledger, at)

    def record_pass(self, ledger: Ledger, passed: Pass) -> ViewsWritten:
        """Write the record of a pass, unless it is there: what became of its findings since does not change it."""
        if _is_recorded(self.root / DIRECTORY / "reviews" / f"{passed.id}.json", passed):
            return ViewsWritten()
        record = pass_record(passed, _of(passed, ledger), ledger_verdicts(ledger, passed).shipping)
        return self._records.write_pass(record)

    def _verdict(self, ledger: Ledger, passed: Pass, said: Verdicts, at: str) -> ViewsWritten:
        latest = self._file.sound() if passed.mode == "verify" else None
        before = latest if isinstance(latest, dict) else None
        document = verdict.get(
            _counting(ledger),
            review_id=before["reviewId"] if before else review_id(passed),
            timestamp=at,
            scope=passed.scope,
            target=passed.target,
            mode="verify",
            report_path="",
            verdicts=replace(said, verdict=said.stated),
            before=before or _since(ledger),
        )
        return self._file.write(sealed({**document, "mode": passed.mode}, SEALED_TOP))

    def _latest(self, ledger: Ledger, at: str) -> tuple[str, ...]:
        """The latest verdict with its findings as they are now. It stays the same review, in the same mode."""
        if not self._file.there:
            return ()
        before = self._file.sound()
        if isinstance(before, str):
            return (before,)
        said = ledger_verdicts(ledger)
        document = verdict.get(
            _counting(ledger),
            review_id=before["reviewId"],
            timestamp=at,
            scope=before["scope"],
            target=before["target"],
            mode="verify",  # goes on from what was there
            report_path=before["reportPath"],
            verdicts=replace(said, verdict=said.stated),
            before=before,
        )
        return self._file.write(sealed({**document, "mode": before["mode"]}, SEALED_TOP)).problems


def _is_recorded(path: Path, passed: Pass) -> bool:
    """Whether the record of a pass is this one's: another store's may have the same id."""
    try:
        record = strict.loads(files.read_file(path) or b"null")
    except (files.NotAFile, NotADirectoryError, ValueError):  # it is somebody else's, whatever it is
        return False
    told = {"id": passed.id, "started_at": passed.started_at, "finding_ids": list(passed.finding_ids)}
    return isinstance(record, dict) and told.items() <= {name: record.get(name) for name in told}.items()


def _of(passed: Pass, ledger: Ledger) -> Sequence[Finding]:
    known = {str(id): finding for id, finding in ledger.findings.items()}
    return [known[id] for id in passed.finding_ids if id in known]


def _counting(ledger: Ledger) -> Iterator[Finding]:
    return (finding for finding in ledger if not finding.pre_existing)


def _since(ledger: Ledger) -> Mapping[str, Any]:
    """What a file has beside the findings that count: those that were open in it and are said to be settled since."""
    return {"findings": [{"x_finding": str(id), "status": "open"} for id in ledger.closed_since_last_pass]}
