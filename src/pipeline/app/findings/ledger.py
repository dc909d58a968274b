"""The repository that findings are about. Outside of git everything still works, without commits."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

from pipeline.app.store import MAX_NAMES, NEWEST, join_names
from pipeline.engine.ports import Journal
from pipeline.errors import AwfError
from pipeline.findings.events import Pass
from pipeline.findings.formats.items import uncollected
from pipeline.findings.git import read_checkout
from pipeline.findings.ledger import Ledger, LedgerStore, lock_ledger
from pipeline.findings.model import Finding, PassId
from pipeline.findings.views import Views
from pipeline.findings.views.record_store import NO_TRUST, Trust
from pipeline.journal.sqlite import SqliteJournal


@dataclass(frozen=True, slots=True)
class Repository:
    """Where files are read and views are written, and what git says of it."""

    root: Path
    environment: Mapping[str, str]
    head: str = ""  # the commit; nothing outside of git, or before the first one
    branch: str = ""
    trusted: tuple[str, ...] = ()  # the commands that the user lets take records

    @property
    def trust(self) -> Trust:
        """What the user allows the project's own store."""
        return Trust(self.trusted, self.environment)


def find_repository(
    given: Path | None, cwd: Path, environment: Mapping[str, str], trusted: tuple[str, ...] = ()
) -> Repository:
    """The directory that was given, or else the repository around the current one."""
    start = (given or cwd).absolute()
    checkout = read_checkout(start, environment)
    root = start if given is not None or not checkout.root else Path(checkout.root)
    return Repository(root, environment, checkout.head, checkout.branch, trusted)


def find_finding(name: str, ledger: Ledger) -> Finding:
    """The finding of an id, the beginning of one, a number or another name it has."""
    found = ledger.find(name) if name else None
    if found is None:
        raise AwfError(f'there is no finding "{name}"', help=suggest_finding(name, ledger))
    return found


def suggest_finding(name: str, ledger: Ledger) -> str:
    """What may be meant by a name that is no finding's."""
    ids = list(map(str, ledger.findings))
    if not ids:
        return "there are no findings yet; take some in with: awf findings import FILE"
    if begun := [id for id in ids if name and id.startswith((name, f"fnd_{name}"))]:
        return f"{len(begun)} ids begin so: {join_names(begun)}"
    close = get_close_matches(name, ids, n=MAX_NAMES, cutoff=0.6)
    return f"did you mean {join_names(close)}?" if close else '"awf findings list --state all" lists them'


def find_pass(name: str, ledger: Ledger) -> Pass:
    """The pass of an id, the beginning of one, or the last for `latest` and `-`."""
    passes = ledger.passes
    if not passes:
        raise AwfError("there are no passes yet", help="make one with: awf findings import FILE")
    if name in NEWEST:
        return next(reversed(passes.values()))
    if PassId(name) in passes:
        return passes[PassId(name)]
    meant = [passed for id, passed in passes.items() if name and id.startswith((name, f"REV-{name}"))]
    if len(meant) == 1:
        return meant[0]
    if meant:
        help = f"write more of the id: {join_names([one.id for one in meant])}"
        raise AwfError(f'{len(meant)} passes begin with "{name}"', help=help)
    raise AwfError(f'there is no pass "{name}"', help=f"the newest are {join_names([*reversed(passes)])}")


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """The findings as they stand, and what was changed in the files that may not be."""

    ledger: Ledger
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """A ledger that this command alone adds to."""

    book: LedgerStore
    views: Views
    problems: tuple[str, ...] = ()


def read_snapshot(store: Path, root: Path, at: str) -> LedgerSnapshot:
    """The findings of a store, with what somebody changed in the files. Looking writes nothing."""
    with closing(SqliteJournal(store)) as journal:
        return read_snapshot_from(journal, root, at, store)


def read_snapshot_from(journal: Journal, root: Path, at: str, store: Path | None = None) -> LedgerSnapshot:
    """The findings of a journal's ledger, with what somebody changed in the files."""
    with uncollected():
        ledger = LedgerStore(journal).ledger()
    return apply_view_edits(ledger, root, at, store)


def apply_view_edits(ledger: Ledger, root: Path, at: str, store: Path | None = None) -> LedgerSnapshot:
    """A ledger that nobody else uses, with what somebody changed in the files taken in."""
    edits = Views(root, store).read_edits(ledger, at)
    for event in edits.events:
        ledger.apply(event)
    return LedgerSnapshot(ledger, edits.problems)


@contextmanager
def open_ledger(store: Path, root: Path, at: str, trust: Trust = NO_TRUST) -> Iterator[OpenLedger]:
    """The ledger to be added to; what somebody changed in the files is in it before anything else."""
    with lock_ledger(store), closing(SqliteJournal(store)) as journal:
        book, views = LedgerStore(journal), Views(root, store, trust)
        edits = views.read_edits(book.ledger(), at)
        book.append(edits.all)
        problems = edits.problems
        if edits.events:  # an edit is taken once, also when what follows is interrupted
            problems += views.refresh(book.ledger(), at)
        elif problems:
            problems += views.restore(book.ledger(), at)
        yield OpenLedger(book, views, tuple(dict.fromkeys(problems)))


def timestamp(now: datetime) -> str:
    """A moment as the ledger has it: whole seconds, in UTC."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
