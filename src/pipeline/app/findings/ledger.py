"""The ledger of a store as a command uses it: read with the edits in the view files, looked up by name, added to."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

from pipeline.app.store import MAX_NAMES, NEWEST, join_names
from pipeline.errors import AwfError
from pipeline.findings.events import LedgerEvent, Pass
from pipeline.findings.git import read_checkout
from pipeline.findings.ledger import Ledger, LedgerStore, lock_ledger
from pipeline.findings.model import Finding, PassId
from pipeline.findings.views import Views
from pipeline.findings.views.record_store import Trust
from pipeline.journal.sqlite import SqliteJournal


@dataclass(frozen=True, slots=True)
class Repository:
    """The directory that findings are about. Outside of git everything works, without commits."""

    root: Path
    environment: Mapping[str, str]
    head: str = ""  # the commit; empty outside of git and before the first one
    branch: str = ""
    trusted: tuple[str, ...] = ()  # the commands that the user allows to receive records


def find_repository(
    given: Path | None, cwd: Path, environment: Mapping[str, str], trusted: tuple[str, ...] = ()
) -> Repository:
    """The given directory, or else the repository around the current one."""
    start = (given or cwd).absolute()
    checkout = read_checkout(start, environment)
    root = start if given is not None or not checkout.root else Path(checkout.root)
    return Repository(root, environment, checkout.head, checkout.branch, trusted)


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """All findings as of now, and the edits in view files that are not allowed."""

    ledger: Ledger
    problems: tuple[str, ...] = ()


def read_snapshot(store: Path, root: Path, at: str) -> LedgerSnapshot:
    """The findings of a store. Reading writes nothing."""
    with closing(SqliteJournal(store)) as journal:
        return apply_view_edits(LedgerStore(journal).ledger(), root, at, store)


def apply_view_edits(ledger: Ledger, root: Path, at: str, store: Path | None = None) -> LedgerSnapshot:
    """Add what was edited in the view files to a ledger that nothing else uses."""
    edits = Views(root, store).read_edits(ledger, at)
    for event in edits.events:
        ledger.apply(event)
    return LedgerSnapshot(ledger, edits.problems)


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """A ledger that only this command may add to."""

    store: LedgerStore
    views: Views
    at: str
    problems: tuple[str, ...] = ()  # edits in view files that are not allowed

    @property
    def ledger(self) -> Ledger:
        """All findings as of now."""
        return self.store.ledger()

    def record(self, events: Sequence[LedgerEvent]) -> tuple[str, ...]:
        """Add events, all or none, and refresh the view files; return the problems with those."""
        self.store.append(events)
        return self.views.refresh(self.ledger, self.at)


@contextmanager
def open_ledger(store: Path, repository: Repository, now: datetime) -> Iterator[OpenLedger]:
    """Lock the ledger of a store for adding to it. Edits in the view files are recorded first."""
    at, trust = timestamp(now), Trust(repository.trusted, repository.environment)
    with lock_ledger(store), closing(SqliteJournal(store)) as journal:
        kept, views = LedgerStore(journal), Views(repository.root, store, trust)
        edits = views.read_edits(kept.ledger(), at)
        kept.append(edits.all)
        problems = edits.problems
        if edits.events:  # refresh now: an interruption must not make an edit count twice
            problems += views.refresh(kept.ledger(), at)
        elif problems:
            problems += views.restore(kept.ledger(), at)
        yield OpenLedger(kept, views, at, tuple(dict.fromkeys(problems)))


def find_finding(name: str, ledger: Ledger) -> Finding:
    """The finding with this id, prefix of an id, number or alias."""
    found = ledger.find(name) if name else None
    if found is None:
        raise AwfError(f'there is no finding "{name}"', help=suggest_finding(name, ledger))
    return found


def suggest_finding(name: str, ledger: Ledger) -> str:
    """What to do about a name that matches no finding, or several."""
    ids = list(map(str, ledger.findings))
    if not ids:
        return "there are no findings yet; add some with: awf findings import FILE"
    if matching := [id for id in ids if name and id.startswith((name, f"fnd_{name}"))]:
        return f"{len(matching)} ids start with that: {join_names(matching)}"
    close = get_close_matches(name, ids, n=MAX_NAMES, cutoff=0.6)
    return f"did you mean {join_names(close)}?" if close else '"awf findings list --state all" lists them'


def find_pass(name: str, ledger: Ledger) -> Pass:
    """The pass with this id or prefix of an id; the last one for `latest` and `-`."""
    passes = ledger.passes
    if not passes:
        raise AwfError("there are no passes yet", help="make one with: awf findings import FILE")
    if name in NEWEST:
        return next(reversed(passes.values()))
    matching = [id for id in passes if name and id.startswith((name, f"REV-{name}"))]
    exact = PassId(name)
    if len(matching) == 1 or exact in matching:
        return passes[exact if exact in matching else matching[0]]
    if matching:
        help = f"give more of the id: {join_names(matching)}"
        raise AwfError(f'{len(matching)} passes start with "{name}"', help=help)
    raise AwfError(f'there is no pass "{name}"', help=f"the newest are {join_names([*reversed(passes)])}")


def timestamp(now: datetime) -> str:
    """A time as the ledger stores it: whole seconds, in UTC."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
