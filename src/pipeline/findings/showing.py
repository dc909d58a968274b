"""The ledger shown in files that people and agents read and edit, and what they edited taken back."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.findings.codecs import verdict
from pipeline.findings.codecs.lens import Edits, sealed
from pipeline.findings.codecs.record import pass_record
from pipeline.findings.codecs.verdict_view import SEALED_TOP
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding
from pipeline.findings.passes import Pass
from pipeline.findings.taking import review_id
from pipeline.findings.verdicts import Verdicts, verdicts
from pipeline.findings.views import verdict_file
from pipeline.findings.views.ignoring import ignore
from pipeline.findings.views.verdict_file import VerdictFile
from pipeline.findings.views.workspace import DIRECTORY, Workspace
from pipeline.findings.views.written import Written


def standing(ledger: Ledger, passed: Pass | None = None) -> Verdicts:
    """The verdicts on all findings, with who answered in a pass, or in the last one."""
    last = passed or ledger.last
    said = last.reviewer_verdicts if last else ()
    return verdicts(ledger, ledger.coverage(passed), said)


def take_back(root: Path, ledger: Ledger, at: str) -> Edits:
    """What somebody changed in the files since they were written."""
    workspace = Workspace(root)
    records = workspace.read_edits(ledger, at=at) if workspace.loaded else Edits()
    return records + VerdictFile(root).read_edits(ledger.findings.values(), at=at)


def show(root: Path, ledger: Ledger, passed: Pass, at: str, environ: Mapping[str, str]) -> Written:
    """Write the files of a pass. They can be written again at any time, and come out the same."""
    unignored = ignore(root, verdict_file.DIRECTORY, environ)
    done = [
        Written(problems=(unignored,) if unignored else ()),
        record_pass(root, ledger, passed),
        _verdict_file(root, ledger, passed, standing(ledger, passed), at),
        Workspace(root).write_findings(ledger.findings.values(), at=at),
    ]
    problems = tuple(problem for written in done for problem in written.problems)
    suggestion = next((written.suggestion for written in done if written.suggestion), "")
    return Written(problems=problems, suggestion=suggestion)


def record_pass(root: Path, ledger: Ledger, passed: Pass) -> Written:
    """Write the record of a pass, unless it is there: what became of its findings since does not change it."""
    if _is_recorded(root / DIRECTORY / "reviews" / f"{passed.id}.json", passed):
        return Written()
    record = pass_record(passed, _of(passed, ledger), standing(ledger, passed).shipping)
    return Workspace(root).write_pass(record)


def _is_recorded(path: Path, passed: Pass) -> bool:
    """Whether the record of a pass is this one's: another store's may have the same id."""
    try:
        record = json.loads(path.read_bytes()) if path.is_file() else None
    except ValueError:  # it is somebody else's, whatever it is
        return False
    told = {"id": passed.id, "started_at": passed.started_at, "finding_ids": list(passed.finding_ids)}
    return isinstance(record, dict) and told.items() <= {name: record.get(name) for name in told}.items()


def _of(passed: Pass, ledger: Ledger) -> Sequence[Finding]:
    known = {str(id): finding for id, finding in ledger.findings.items()}
    return [known[id] for id in passed.finding_ids if id in known]


def _verdict_file(root: Path, ledger: Ledger, passed: Pass, said: Verdicts, at: str) -> Written:
    file = VerdictFile(root)
    latest = file.sound() if passed.mode == "verify" else None
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
    return file.write(sealed({**document, "mode": passed.mode}, SEALED_TOP))


def _counting(ledger: Ledger) -> Iterator[Finding]:
    return (finding for finding in ledger if not finding.pre_existing)


def _since(ledger: Ledger) -> Mapping[str, Any]:
    """What a file has beside the findings that count: those that were open in it and are said to be settled since."""
    return {"findings": [{"x_finding": str(id), "status": "open"} for id in ledger.settled]}


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
    said = standing(ledger)
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
    return file.write(sealed({**document, "mode": before["mode"]}, SEALED_TOP)).problems
