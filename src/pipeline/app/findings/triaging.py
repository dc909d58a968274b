"""Decisions about findings, written down and shown in the files. A pass that is on record is never touched."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.app.findings.books import iso, writing
from pipeline.findings.codecs import verdict
from pipeline.findings.codecs.lens import sealed
from pipeline.findings.codecs.verdict_view import SEALED_TOP
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding
from pipeline.findings.showing import standing
from pipeline.findings.triage import triage
from pipeline.findings.views.verdict_file import VerdictFile
from pipeline.findings.views.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided, and what was refused."""

    findings: tuple[Finding, ...]  # as they are now
    refused: dict[str, str]
    problems: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The decisions for a program."""
        applied = [{"id": finding.id, "state": str(finding.state)} for finding in self.findings]
        return {"applied": applied, "refused": self.refused, "problems": list(self.problems)}


def decide(
    ids: Sequence[str],
    status: str,
    store: Path,
    root: Path,
    now: datetime,
    *,
    note: str = "",
    by: str,
    expires: str = "",
) -> Decided:
    """Apply what may be applied, and rewrite the files of findings and the verdict."""
    at = iso(now)
    with writing(store, root, at) as open_book:
        done = triage(open_book.book.ledger(), ids, status, note=note, by=by, at=at, expires=expires)
        open_book.book.enter(done.events)
        ledger = open_book.book.ledger()
        shown = reshow(root, ledger, at)
    turned = (event.id for event in done.events if event.kind == "turned")
    return Decided(tuple(ledger.findings[id] for id in turned), done.refused, open_book.problems + shown)


def reshow(root: Path, ledger: Ledger, at: str) -> tuple[str, ...]:
    """Write the files again after findings changed between passes; what could not be written."""
    workspace = Workspace(root)
    records = workspace.write_findings(ledger.findings.values(), at=at).problems if workspace.loaded else ()
    return records + _latest(root, ledger, at)


def _latest(root: Path, ledger: Ledger, at: str) -> tuple[str, ...]:
    """The latest verdict with its findings as they are now. It stays what it was: the same review, in the same mode."""
    file = VerdictFile(root)
    if not file.path.exists():
        return ()
    before = file.sound()
    if isinstance(before, str):
        return (before,)
    document = verdict.get(
        (finding for finding in ledger if not finding.pre_existing),
        review_id=before["reviewId"],
        timestamp=at,
        scope=before["scope"],
        target=before["target"],
        mode="verify",  # goes on from what was there
        report_path=before["reportPath"],
        verdicts=standing(ledger),
        before=before,
    )
    return file.write(sealed({**document, "mode": before["mode"]}, SEALED_TOP)).problems
