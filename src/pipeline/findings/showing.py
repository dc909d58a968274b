"""The ledger shown in files that people and agents read and edit, and what they edited taken back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.findings.codecs import verdict
from pipeline.findings.codecs.lens import Edits
from pipeline.findings.codecs.record import pass_record
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, Finding
from pipeline.findings.passes import Pass
from pipeline.findings.taking import review_id
from pipeline.findings.verdicts import Verdicts, verdicts
from pipeline.findings.views.verdict_file import VerdictFile
from pipeline.findings.views.workspace import Workspace
from pipeline.findings.views.written import Written


@dataclass(frozen=True, slots=True)
class Shown:
    """What a report has to say about the files."""

    problems: tuple[str, ...] = ()
    suggestion: str = ""


def standing(ledger: Ledger, passed: Pass | None = None) -> Verdicts:
    """The verdicts on all findings, with who answered in a pass, or in the last one."""
    last = passed or next(reversed(ledger.passes.values()), None)
    said = last.reviewer_verdicts if last else ()
    return verdicts(ledger, last.coverage if last else None, said)


def take_back(root: Path, ledger: Ledger, at: str, by: str = Actor.ORCHESTRATOR) -> Edits:
    """What somebody changed in the files since they were written."""
    workspace = Workspace(root)
    records = workspace.read_edits(ledger, at=at, by=by) if workspace.loaded else Edits()
    return records + VerdictFile(root).read_edits(ledger.findings.values(), at=at, by=by)


def show(root: Path, ledger: Ledger, passed: Pass, at: str) -> Shown:
    """Write the files of a pass. They can be written again at any time, and come out the same."""
    said = standing(ledger, passed)
    workspace = Workspace(root)
    done = [
        _verdict_file(root, ledger, passed, said, at),
        workspace.write_pass(pass_record(passed, _of(passed, ledger), said.shipping)),
        workspace.write_findings(ledger.findings.values(), at=at),
    ]
    problems = tuple(problem for written in done for problem in written.problems)
    return Shown(problems, next((written.suggestion for written in done if written.suggestion), ""))


def _of(passed: Pass, ledger: Ledger) -> Sequence[Finding]:
    known = {str(id): finding for id, finding in ledger.findings.items()}
    return [known[id] for id in passed.finding_ids if id in known]


def _verdict_file(root: Path, ledger: Ledger, passed: Pass, said: Verdicts, at: str) -> Written:
    file = VerdictFile(root)
    before = file.sound() if passed.mode == "verify" else None
    document = verdict.get(
        _shown(ledger),
        review_id=before["reviewId"] if isinstance(before, dict) else review_id(passed),
        timestamp=at,
        scope=passed.scope,
        target=passed.target,
        mode=passed.mode,
        report_path="",
        verdicts=said,
        before=before if isinstance(before, dict) else None,
    )
    return file.write(document)


def _shown(ledger: Ledger) -> Iterable[Finding]:
    return (finding for finding in ledger if not finding.pre_existing)
