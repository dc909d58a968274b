"""The files that reviewers and tools left, and what they say.

A file that is not there is a mistake of whoever asked. One that cannot be used is an answer that is no answer: it is
counted as such, and the pass is incomplete.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pipeline.app.findings.ledger import Repository, open_ledger, timestamp
from pipeline.app.findings.queries import VerdictSummary, summarize_verdict
from pipeline.errors import AwfError
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
from pipeline.findings.formats import FORMATS, IMPORT_FORMATS, detect
from pipeline.findings.formats.items import MAX_BYTES, malformed_report
from pipeline.findings.ingest import PassInfo, assessed, recognise
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import GitHistory
from pipeline.findings.merge import Policy
from pipeline.findings.model import Finding, FindingState, Lens, RawFinding, ReviewerReport, UnreadableItem
from pipeline.findings.triage import find_stale_dismissals

AUTO = "auto"
STDIN = "-"


@dataclass(frozen=True, slots=True)
class ReportFile:
    """The bytes of one answer, and what to call whoever gave it."""

    name: str
    stem: str
    data: bytes = b""
    problem: str = ""  # why there are no bytes


def read_files(names: Sequence[str], stdin: BinaryIO, *, largest: int = MAX_BYTES) -> list[ReportFile]:
    """The files of some names. Where any is missing nothing is read; one that cannot be read has a problem."""
    paths = [Path(name) for name in names if name != STDIN]
    if lost := [str(path) for path in paths if not path.exists()]:
        raise AwfError(f"there is no file {' or '.join(lost)}", help="nothing was recorded; check the names")
    if paths and all(path.is_dir() for path in paths) and STDIN not in names:
        raise AwfError(f"{paths[0]} is a directory", help="name the files in it; nothing was recorded")
    if list(names).count(STDIN) > 1:
        raise AwfError("standard input can be read only once", help='give "-" once; nothing was recorded')
    return [_stdin(stdin, largest) if name == STDIN else _file(Path(name), largest) for name in names]


def decode_files(
    sources: Iterable[ReportFile], root: Path, *, format: str, reviewer: str, lens: Lens | None
) -> list[ReviewerReport]:
    """What the files say, each item under an id of its own."""
    returns = [replace(_decode(source, format, reviewer, str(root)), file=source.stem or "stdin") for source in sources]
    return number_items([_through(answer, lens) for answer in returns])


def number_items(returns: Iterable[ReviewerReport]) -> list[ReviewerReport]:
    """Returns whose items go on counting where an earlier file of the same reviewer ended."""
    taken, done = Counter[str](), list[ReviewerReport]()
    for answer in returns:
        before = taken[answer.reviewer]
        taken[answer.reviewer] += answer.inputs
        done.append(_shifted(answer, before) if before else answer)
    return done


def _stdin(stdin: BinaryIO, largest: int) -> ReportFile:
    return _sized(ReportFile("standard input", "", stdin.read(largest + 1)), largest)


def _file(path: Path, largest: int) -> ReportFile:
    try:
        with path.open("rb") as file:
            return _sized(ReportFile(str(path), path.stem, file.read(largest + 1)), largest)
    except OSError as error:
        return ReportFile(str(path), path.stem, problem=f"{path} cannot be read: {error.strerror}")


def _sized(source: ReportFile, largest: int) -> ReportFile:
    if len(source.data) <= largest:
        return source
    problem = f"{source.name} has more than {largest:,} bytes; split it"
    return ReportFile(source.name, source.stem, problem=problem)


def _decode(source: ReportFile, format: str, reviewer: str, root: str) -> ReviewerReport:
    name = reviewer or source.stem
    if source.problem:
        return malformed_report(name or "stdin", "", source.problem)
    if not source.data.strip():
        return malformed_report(name or "stdin", "", f"{source.name} is empty")
    kind = detect(source.data, source.name) if format == AUTO else FORMATS[format]
    if kind is None:
        problem = f"the format of {source.name} is not known; name it with --format {'|'.join(IMPORT_FORMATS)}"
        return malformed_report(name or "stdin", "", problem)
    answer = kind.read(source.data, reviewer=reviewer, root=root)
    unnamed = not answer.reviewer or (answer.reviewer == kind.name and not kind.is_tool)
    if reviewer or not unnamed:
        return answer
    return kind.read(source.data, reviewer=source.stem or kind.name, root=root)


def _through(answer: ReviewerReport, lens: Lens | None) -> ReviewerReport:
    if lens is None:
        return answer
    return replace(answer, findings=tuple(replace(claim, lens=lens) for claim in answer.findings))


def _shifted(answer: ReviewerReport, by: int) -> ReviewerReport:
    claims = tuple(replace(claim, input_id=_later(claim, by)) for claim in answer.findings)
    rejected = tuple(replace(item, input_id=_later(item, by)) for item in answer.unreadable)
    return replace(answer, findings=claims, unreadable=rejected)


def _later(item: RawFinding | UnreadableItem, by: int) -> str:
    prefix, _, number = item.input_id.rpartition("#")
    return f"{prefix}#{int(number) + by}"


Mode = Literal["full", "quick", "verify"]
CALLER = "awf findings import"


@dataclass(frozen=True, slots=True)
class PassChanges:
    """What a pass did to findings, by id. How a finding was observed and whether it came back are two questions."""

    new: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What a pass came to."""

    passed: Pass
    changes: PassChanges
    standing: VerdictSummary
    findings: dict[str, Finding]  # those that the pass changed
    problems: tuple[str, ...] = ()
    suggestion: str = ""
    unused: tuple[str, ...] = ()  # dismissals that are of no use any more

    @property
    def dispositions(self) -> dict[str, int]:
        """How many items met each fate; together they are all items."""
        counts = {str(disposition): 0 for disposition in Disposition}
        for entry in self.passed.entries:
            counts[entry.disposition] += 1
        return counts

    def refused(self) -> list[ItemOutcome]:
        """The items that could not be used."""
        return [entry for entry in self.passed.entries if entry.disposition is Disposition.REJECTED]

    def as_json(self) -> dict[str, Any]:
        """The pass for a program."""
        return {
            "pass": self.passed.id,
            "inputs": len(self.passed.entries),
            "dispositions": self.dispositions,
            **asdict(self.changes),
            "unused": list(self.unused),
            "verdicts": self.standing.as_json(),
            "reviewers": {name: str(status) for name, status in self.passed.coverage.reviewers.items()},
            "problems": [*self.standing.gaps, *self.problems],
        }


def import_reports(
    returns: Iterable[ReviewerReport],
    store: Path,
    repository: Repository,
    now: datetime,
    *,
    task: str = "",
    mode: Mode = "full",
) -> ImportResult:
    """Make one pass of what was returned, and write it down and into the files."""
    at = timestamp(now)
    about = PassInfo(
        root=repository.root,
        environment=repository.environment,
        at=at,
        seconds=int(now.timestamp()),
        head=repository.head,
        branch=repository.branch,
        task=task,
        caller=CALLER,
        mode=mode,
        target=repository.branch or repository.head[:12],
    )
    with open_ledger(store, repository.root, at, repository.trust) as open_book:
        ledger = open_book.book.ledger()
        given = [assessed(returns, ledger, about, Policy())]
        del returns  # a hundred thousand items need not be kept twice
        taken = recognise(given.pop(), ledger, about)
        passed, events = taken.passed, taken.events
        del taken
        open_book.book.append(events)
        changes = pass_changes(events)
        del events
        ledger = open_book.book.ledger()
        shown = open_book.views.write(ledger, passed, at)
    return ImportResult(
        passed,
        changes,
        summarize_verdict(ledger),
        _touched(changes, ledger),
        open_book.problems + shown.problems,
        shown.suggestion,
        tuple(find_stale_dismissals(ledger, GitHistory(repository.root, repository.environment), at)),
    )


def pass_changes(events: Iterable[LedgerEvent]) -> PassChanges:
    """What the events of a pass did, each finding once in each list."""
    lists: dict[str, dict[str, None]] = {part.name: {} for part in fields(PassChanges)}
    for name, id in _classify(events):
        lists[name][id] = None
    return PassChanges(**{name: tuple(ids) for name, ids in lists.items()})


def _classify(events: Iterable[LedgerEvent]) -> Iterator[tuple[str, str]]:
    for event in events:
        match event:
            case FindingRaised():
                yield "new", event.finding.id
            case ReportedAgain():
                yield str(event.observed), event.id
            case StateChanged(state=FindingState.REOPENED):
                yield "reopened", event.id
            case NotReported():
                yield "absent", event.id
            case _:
                pass  # what else happened is told with the finding


def _touched(changes: PassChanges, ledger: Ledger) -> dict[str, Finding]:
    touched = {id for ids in asdict(changes).values() for id in ids}
    return {str(id): finding for id, finding in ledger.findings.items() if id in touched}
