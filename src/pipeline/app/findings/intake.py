"""One pass from files: read the reports of reviewers and tools, ingest them, record the result and show it.

A missing file is a mistake of the caller and stops the command. A file that cannot be used is an answer that could
not be read: the pass is recorded as incomplete.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from pipeline.app.findings.ledger import Repository, open_ledger, timestamp
from pipeline.app.findings.queries import VerdictSummary, summarize_verdict
from pipeline.app.findings.review_report import ReportWritten
from pipeline.errors import AwfError
from pipeline.findings.answers import drop_conflicting_rulings, reviewer_events
from pipeline.findings.events import (
    Disposition,
    FindingRaised,
    ItemOutcome,
    LedgerEvent,
    NotReported,
    Pass,
    ReportedAgain,
    StateChanged,
)
from pipeline.findings.evidence import named_places
from pipeline.findings.formats import FORMATS, IMPORT_FORMATS, detect
from pipeline.findings.formats.items import MAX_BYTES, malformed_report
from pipeline.findings.git import TreeSnapshots, query_git
from pipeline.findings.ingest import ingest, new_pass_id
from pipeline.findings.ledger import Ledger, joined_to
from pipeline.findings.model import Answer, FindingId, FindingState, RawFinding, ReviewerReport, UnreadableItem
from pipeline.findings.review_options import ReviewOptions
from pipeline.findings.reviews import claims_to_verify
from pipeline.findings.triage import find_stale_dismissals
from pipeline.language.model import Lens

AUTO = "auto"
STDIN = "-"
CALLER = "awf findings import"
STAGE = "stage:"  # before the name of a reviewer that is a stage of a run
_DEFAULTS = ReviewOptions(caller=CALLER)
_CHANGES = ("new", "unchanged", "updated", "moved", "reopened", "absent", "fixed")


@dataclass(frozen=True, slots=True)
class ReportFile:
    """The contents of a file, and what to call its author if it does not say."""

    name: str
    stem: str
    data: bytes = b""
    problem: str = ""  # why there are no contents


def read_files(names: Sequence[str], stdin: BinaryIO, *, largest: int = MAX_BYTES) -> list[ReportFile]:
    """Read files, `-` being standard input. If any is missing, nothing is read; an unreadable one has a problem."""
    paths = [Path(name) for name in names if name != STDIN]
    if missing := [str(path) for path in paths if not path.exists()]:
        raise AwfError(f"there is no file {' or '.join(missing)}", help="nothing was recorded; check the names")
    if paths and all(path.is_dir() for path in paths) and STDIN not in names:
        raise AwfError(f"{paths[0]} is a directory", help="name the files in it; nothing was recorded")
    if list(names).count(STDIN) > 1:
        raise AwfError("standard input can be read only once", help='give "-" once; nothing was recorded')
    return [_read_file(name, stdin, largest) for name in names]


def _read_file(name: str, stdin: BinaryIO, largest: int) -> ReportFile:
    path, stem = Path(name), "" if name == STDIN else Path(name).stem
    shown = "standard input" if name == STDIN else str(path)
    try:
        if name == STDIN:
            data = stdin.read(largest + 1)
        else:
            with path.open("rb") as file:
                data = file.read(largest + 1)
    except OSError as error:
        return ReportFile(shown, stem, problem=f"{shown} cannot be read: {error.strerror}")
    if len(data) > largest:
        return ReportFile(shown, stem, problem=f"{shown} has more than {largest:,} bytes; split it")
    return ReportFile(shown, stem, data)


def decode_files(
    files: Iterable[ReportFile], root: Path, *, format: str, reviewer: str, lens: Lens | None, partial: bool = False
) -> Iterator[ReviewerReport]:
    """The reports in files, one after another. Items of one reviewer are numbered through all of its files.

    A `partial` report says nothing about files that it does not name.
    """
    counts = Counter[str]()
    for file in files:
        report = replace(_decode(file, format, reviewer, str(root)), file=file.stem or "stdin")
        if lens:
            report = replace(report, findings=tuple(replace(finding, lens=lens) for finding in report.findings))
        if partial and report.covered is None:
            named = (place.path for finding in report.findings for place in named_places(finding))
            report = replace(report, covered=tuple(dict.fromkeys(named)))
        if before := counts[report.reviewer]:
            report = _renumber(report, before)
        counts[report.reviewer] += report.inputs
        yield report


def _decode(file: ReportFile, format: str, reviewer: str, root: str) -> ReviewerReport:
    name = reviewer or file.stem or "stdin"
    if file.problem:
        return malformed_report(name, "", file.problem)
    if not file.data.strip():
        return malformed_report(name, "", f"{file.name} is empty")
    kind = detect(file.data, file.name) if format == AUTO else FORMATS[format]
    if kind is None:
        problem = f"the format of {file.name} is unknown; choose one with --format {'|'.join(IMPORT_FORMATS)}"
        return malformed_report(name, "", problem)
    report = kind.read(file.data, reviewer=reviewer, root=root)
    unnamed = not report.reviewer or (report.reviewer == kind.name and not kind.is_tool)
    if reviewer or not unnamed:
        return report
    return kind.read(file.data, reviewer=file.stem or kind.name, root=root)


def _renumber(report: ReviewerReport, by: int) -> ReviewerReport:
    def later(item: RawFinding | UnreadableItem) -> str:
        prefix, _, number = item.input_id.rpartition("#")
        return f"{prefix}#{int(number) + by}"

    findings = tuple(replace(finding, input_id=later(finding)) for finding in report.findings)
    unreadable = tuple(replace(item, input_id=later(item)) for item in report.unreadable)
    return replace(report, findings=findings, unreadable=unreadable)


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What a pass recorded."""

    passed: Pass
    changes: dict[str, list[FindingId]]  # what it did to which findings; an id can be both moved and reopened
    verdict: VerdictSummary
    ledger: Ledger
    problems: tuple[str, ...] = ()
    suggestion: str = ""
    stale: tuple[str, ...] = ()  # findings whose dismissal is stale
    report: ReportWritten | None = None

    @property
    def dispositions(self) -> dict[str, int]:
        """How many items had each outcome; together they are all items."""
        counts = Counter(str(outcome.disposition) for outcome in self.passed.entries)
        return {str(disposition): counts[disposition] for disposition in Disposition}

    @property
    def rejected(self) -> list[ItemOutcome]:
        """The items that could not be read."""
        return [outcome for outcome in self.passed.entries if outcome.disposition is Disposition.REJECTED]

    def as_json(self) -> dict[str, Any]:
        """The pass for a program."""
        return {
            "pass": self.passed.id,
            "inputs": len(self.passed.entries),
            "dispositions": self.dispositions,
            **self.changes,
            "unused": list(self.stale),
            "verdicts": self.verdict.as_json(),
            "reviewers": {name: str(status) for name, status in self.passed.coverage.reviewers.items()},
            "problems": [*self.verdict.gaps, *self.problems, *(self.report.problems if self.report else ())],
            **({"report": self.report.path} if self.report else {}),
        }


def import_reports(
    reports: Iterable[ReviewerReport],
    store: Path,
    repository: Repository,
    now: datetime,
    options: ReviewOptions = _DEFAULTS,
) -> ImportResult:
    """Make one pass of reports, record it and write the view files.

    A verification without a claimed fix, or without a full review before it, raises AwfError and records nothing.
    """
    at = timestamp(now)
    taken = TreeSnapshots(repository.environment, store).take(repository.root)
    base = _find_commit(options.base, repository) if options.base else ""
    with open_ledger(store, repository, now) as opened:
        if options.mode == "verify":
            if not claims_to_verify(opened.ledger):
                help = "a verification checks findings that are fix_claimed or reopened; nothing was recorded"
                raise AwfError("there is no claimed fix to verify", help=help)
            if problem := opened.views.why_not_verifiable():
                raise AwfError(problem, help="nothing was recorded")
        passed = Pass(
            id=new_pass_id(opened.ledger, int(now.timestamp()), repository.head),
            started_at=at,
            head=repository.head,
            tree=taken.tree,
            branch=repository.branch,
            base=base,
            task=options.task,
            caller=options.caller,
            mode=options.mode,
            scope=options.scope,
            target=options.target or repository.branch or repository.head[:12],
        )
        rulings: dict[str, list[Answer]] = {}  # by reviewer

        def keep_rulings() -> Iterator[ReviewerReport]:
            for report in reports:
                rulings.setdefault(report.reviewer, []).extend(report.rulings)
                yield report

        def respond(ledger: Ledger, reported: frozenset[str]) -> Iterator[LedgerEvent]:
            for name, said in rulings.items():
                if name.startswith(STAGE):  # a stage does not confirm its own fixes
                    continue
                kept = drop_conflicting_rulings(said, ledger, reported)
                given: dict[str, Any] = {"run": "", "round": 1, "by": name, "at": at, "pass_id": passed.id}
                events = list(reviewer_events(kept, ledger, verifies=options.mode == "verify", **given))
                yield from events
                ledger = ledger.extended(events)

        result = ingest(keep_rulings(), opened.ledger, passed, repository.root, repository.environment, at, respond)
        opened.store.append(result.events)
        passed, changes = result.passed, pass_changes(result.events, opened.ledger)
        del result  # a hundred thousand findings need not be kept twice
        ledger = opened.ledger
        written = opened.views.write(ledger, passed, at)
    return ImportResult(
        passed,
        changes,
        summarize_verdict(ledger),
        ledger,
        opened.problems + written.problems,
        written.suggestion,
        tuple(find_stale_dismissals(ledger, repository.root, repository.environment, at)),
    )


def _find_commit(name: str, repository: Repository) -> str:
    commit = query_git(
        repository.root, repository.environment, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"
    )
    if not commit:
        raise AwfError(f'there is no commit "{name}"', help="nothing was recorded")
    return commit


def pass_changes(events: Iterable[LedgerEvent], ledger: Ledger) -> dict[str, list[FindingId]]:
    """What the events of a pass did, each finding once in each list, and a cluster as its leader."""
    lists: dict[str, dict[FindingId, None]] = {name: {} for name in _CHANGES}
    for event in events:
        match event:
            case FindingRaised():
                lists["new"][event.finding.id] = None
            case ReportedAgain():
                lists[event.observed][event.id] = None
            case StateChanged(state=FindingState.REOPENED):
                lists["reopened"][event.id] = None
            case StateChanged(state=FindingState.VERIFIED_FIXED):
                lists["absent"].pop(event.id, None)
                lists["fixed"][event.id] = None
            case NotReported():
                lists["absent"][event.id] = None
            case _:
                pass  # the finding's own history has the rest
    return {name: [id for id in ids if not joined_to(ledger.findings[id])] for name, ids in lists.items()}
