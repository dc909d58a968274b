"""One pass made of files: who said what is decided before, what becomes of it is decided here, and then it is shown."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pipeline.app.findings.books import iso, writing
from pipeline.app.findings.repository import Repository
from pipeline.app.findings.standing import VerdictSummary, standing_of
from pipeline.findings.claims import Return
from pipeline.findings.events import AnyEvent, Missed, Raised, Seen, Turned
from pipeline.findings.identity.history import GitHistory
from pipeline.findings.intake.policy import Policy
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.passes import Disposition, Entry, Pass
from pipeline.findings.taking import About, assessed, recognise
from pipeline.findings.unused import unused

Mode = Literal["full", "quick", "verify"]
CALLER = "awf findings import"


@dataclass(frozen=True, slots=True)
class Changes:
    """What a pass did to findings, by id. How a finding was observed and whether it came back are two questions."""

    new: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """What a pass came to."""

    passed: Pass
    changes: Changes
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

    def refused(self) -> list[Entry]:
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


def import_returns(
    returns: Iterable[Return],
    store: Path,
    repository: Repository,
    now: datetime,
    *,
    task: str = "",
    mode: Mode = "full",
) -> Imported:
    """Make one pass of what was returned, and write it down and into the files."""
    at = iso(now)
    about = About(
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
    with writing(store, repository.root, at, repository.trust) as open_book:
        ledger = open_book.book.ledger()
        given = [assessed(returns, ledger, about, Policy())]
        del returns  # a hundred thousand items need not be kept twice
        taken = recognise(given.pop(), ledger, about)
        passed, events = taken.passed, taken.events
        del taken
        open_book.book.enter(events)
        changes = changes_of(events)
        del events
        ledger = open_book.book.ledger()
        shown = open_book.views.show(ledger, passed, at)
    return Imported(
        passed,
        changes,
        standing_of(ledger),
        _touched(changes, ledger),
        open_book.problems + shown.problems,
        shown.suggestion,
        tuple(unused(ledger, GitHistory(repository.root, repository.environment), at)),
    )


def changes_of(events: Iterable[AnyEvent]) -> Changes:
    """What the events of a pass did, each finding once in each list."""
    lists: dict[str, dict[str, None]] = {part.name: {} for part in fields(Changes)}
    for name, id in _told(events):
        lists[name][id] = None
    return Changes(**{name: tuple(ids) for name, ids in lists.items()})


def _told(events: Iterable[AnyEvent]) -> Iterator[tuple[str, str]]:
    for event in events:
        match event:
            case Raised():
                yield "new", event.finding.id
            case Seen():
                yield str(event.observed), event.id
            case Turned(state=FindingState.REOPENED):
                yield "reopened", event.id
            case Missed():
                yield "absent", event.id
            case _:
                pass  # what else happened is told with the finding


def _touched(changes: Changes, ledger: Ledger) -> dict[str, Finding]:
    touched = {id for ids in asdict(changes).values() for id in ids}
    return {str(id): finding for id, finding in ledger.findings.items() if id in touched}
