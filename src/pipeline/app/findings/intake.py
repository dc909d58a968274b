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
from pipeline.app.findings.lookup import require_full_review
from pipeline.app.findings.queries import review_json
from pipeline.app.findings.review_report import ReportWritten
from pipeline.errors import AwfError
from pipeline.findings.events import Disposition, FindingChanged, FindingRaised, ItemOutcome, LedgerEvent, Pass
from pipeline.findings.evidence import named_places
from pipeline.findings.formats import FORMATS, IMPORT_FORMATS, Format, detect
from pipeline.findings.formats.items import MAX_BYTES, WRITTEN_FORMATS, malformed_report
from pipeline.findings.formats.review import NOT_EXAMINED
from pipeline.findings.git import TreeSnapshots, query_git
from pipeline.findings.ledger import Ledger
from pipeline.findings.looks import target_of
from pipeline.findings.model import Draft, Finding, FindingId, FindingState, Report, ReportStatus
from pipeline.findings.places import former_names
from pipeline.findings.reports import with_beside, with_said
from pipeline.findings.review_options import ReviewOptions
from pipeline.findings.reviews import Review, review, review_id
from pipeline.findings.rulings import EVERYTHING
from pipeline.findings.taking import new_pass_id, take_in
from pipeline.findings.triage import find_stale_dismissals
from pipeline.language.model import Lens

AUTO = "auto"
STDIN = "-"
CALLER = "awf findings import"
STAGE = "stage:"  # before the name of a reviewer that is a stage of a run
_DEFAULTS = ReviewOptions(caller=CALLER)
_CHANGES = ("new", "known", "reopened", "fixed")


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
    files: Iterable[ReportFile],
    root: Path,
    *,
    format: str,
    reviewer: str,
    lens: Lens | None,
    complete: bool | None = None,
) -> Iterator[Report]:
    """The reports in files, one after another. Items of one reviewer are numbered through all of its files.

    A `complete` report is about everything, a partial one about the files that it names; None: nobody has said.
    """
    counts = Counter[str]()
    for file in files:
        report = replace(_decode(file, format, reviewer, str(root)), file=file.stem or "stdin")
        report = replace(report, tool=report.format not in WRITTEN_FORMATS)
        if lens:
            report = replace(report, lens=lens, drafts=tuple(replace(draft, lens=lens) for draft in report.drafts))
        if complete is not None and report.covered is None:
            named = (place.path for draft in report.drafts for place in named_places(draft))
            report = replace(report, covered=(EVERYTHING,) if complete else tuple(dict.fromkeys(named)))
        if before := counts[report.reviewer]:
            report = _renumber(report, before)
        counts[report.reviewer] += len(report.drafts)
        yield report


def _decode(file: ReportFile, format: str, reviewer: str, root: str) -> Report:
    name = reviewer or file.stem or "stdin"
    if file.problem:
        return malformed_report(name, "", file.problem)
    if not file.data.strip():
        return malformed_report(name, "", f"{file.name} is empty")
    kind = detect(file.data, file.name) if format == AUTO else FORMATS[format]
    if kind is None:
        problem = f"the format of {file.name} is unknown; choose one with --format {'|'.join(IMPORT_FORMATS)}"
        return _with_words(malformed_report(name, "", problem), file.data)
    report = _read(kind, file.data, reviewer, root)
    unnamed = not report.reviewer or (report.reviewer == kind.name and not kind.is_tool)
    if reviewer or not unnamed:
        return report
    return _read(kind, file.data, file.stem or kind.name, root)


def _read(kind: Format, data: bytes, reviewer: str, root: str) -> Report:
    """Return the report in a file. Nobody can be asked again: an empty list in doubt cannot be used."""
    report = with_beside(kind.read(data, reviewer=reviewer, root=root))
    if report.status is ReportStatus.MALFORMED and not kind.is_tool:
        return _with_words(report, data)
    if not report.doubt or report.doubt == NOT_EXAMINED:
        return report
    status = ReportStatus.PARTIAL if report.drafts else ReportStatus.MALFORMED
    return replace(report, status=status, problem=report.doubt, doubt="")


def _with_words(report: Report, data: bytes) -> Report:
    """Return the report of an unreadable file, with the blockers that it names in prose. Broken JSON is not prose."""
    text = data.decode(errors="replace")
    return report if "{" in text else with_said(report, None, [text])


def _renumber(report: Report, by: int) -> Report:
    def later(draft: Draft) -> Draft:
        prefix, _, number = draft.input_id.rpartition("#")
        return replace(draft, input_id=f"{prefix}#{int(number) + by}")

    return replace(report, drafts=tuple(map(later, report.drafts)))


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What a pass recorded."""

    passed: Pass
    changes: dict[str, list[FindingId]]  # what it did to which findings
    review: Review
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
            "verdicts": review_json(self.review),
            "reviewers": {look.reviewer: str(look.status) for look in self.passed.coverage.looks},
            "problems": [*self.review.gaps, *self.problems, *(self.report.problems if self.report else ())],
            **({"report": self.report.path} if self.report else {}),
        }


def import_reports(
    reports: Iterable[Report],
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
            if not any(map(_is_to_be_verified, opened.ledger.findings.values())):
                help = "a verification checks findings that are fix_claimed or reopened; nothing was recorded"
                raise AwfError("there is no claimed fix to verify", help=help)
            require_full_review(opened.ledger)
        passed = _new_pass(opened.ledger, repository, replace(options, base=base), at, int(now.timestamp()), taken.tree)
        read = tuple(map(_of_a_stage, reports))
        notes = tuple(f"{report.reviewer}: {note}" for report in read for note in _notes(report))
        result = take_in(read, opened.ledger, passed, repository.root, repository.environment, at)
        opened.store.append(result.events)
        passed, changes = result.passed, pass_changes(result.events)
        del result, read  # a hundred thousand findings need not be kept twice
        ledger = opened.ledger
        written = opened.views.write(ledger, passed)
    return ImportResult(
        passed,
        changes,
        review(ledger, passed),
        notes + opened.problems + written.problems,
        written.suggestion,
        tuple(find_stale_dismissals(ledger, repository.root, repository.environment)),
    )


def _new_pass(ledger: Ledger, repository: Repository, options: ReviewOptions, at: str, seconds: int, tree: str) -> Pass:
    id = new_pass_id(ledger, seconds, repository.head)
    paths = target_of(options, "", tree, repository.root, repository.environment).paths
    if paths is not None:
        paths = (*paths, *former_names(ledger, paths, repository.root, repository.environment))
    return Pass(
        id=id,
        started_at=at,
        review=review_id(ledger, id, "", 1, options.mode),
        head=repository.head,
        tree=tree,
        branch=repository.branch,
        base=options.base,
        task=options.task,
        caller=options.caller,
        mode=options.mode,
        scope=options.scope,
        target=options.target or repository.branch or repository.head[:12],
        paths=paths,
    )


def _notes(report: Report) -> tuple[str, ...]:
    """Return what is odd about a report that is taken as it is."""
    return (*report.notes, report.doubt) if report.doubt and not report.drafts else report.notes


def _is_to_be_verified(finding: Finding) -> bool:
    return finding.state in (FindingState.FIX_CLAIMED, FindingState.REOPENED)


def _of_a_stage(report: Report) -> Report:
    """Return what a stage of a run reports: it does not confirm its own fixes, and speaks for no reviewer."""
    if not report.reviewer.startswith(STAGE):
        return report
    drafts = tuple(replace(draft, reviewer=report.reviewer) for draft in report.drafts)
    return replace(report, drafts=drafts, rulings=())


def _find_commit(name: str, repository: Repository) -> str:
    commit = query_git(
        repository.root, repository.environment, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"
    )
    if not commit:
        raise AwfError(f'there is no commit "{name}"', help="nothing was recorded")
    return commit


def pass_changes(events: Iterable[LedgerEvent]) -> dict[str, list[FindingId]]:
    """Return what the events of a pass did, each finding once in each list."""
    lists: dict[str, dict[FindingId, None]] = {name: {} for name in _CHANGES}
    for event in events:
        if isinstance(event, FindingRaised):
            lists["new"][event.finding.id] = None
        elif isinstance(event, FindingChanged):
            lists[_kind_of(event)][event.id] = None
    return {name: list(ids) for name, ids in lists.items()}


def _kind_of(event: FindingChanged) -> str:
    """Return in which list a change belongs."""
    if event.change.state is FindingState.REOPENED:
        return "reopened"
    if event.change.state is FindingState.VERIFIED_FIXED:
        return "fixed"
    return "known"
