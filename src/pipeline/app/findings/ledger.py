"""The ledger of a store as a command uses it: read with the edits in the view files, and added to."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.findings.events import LedgerEvent
from pipeline.findings.git import read_checkout
from pipeline.findings.ledger import Ledger, LedgerStore, lock_ledger
from pipeline.findings.triage import expire
from pipeline.findings.untaken import untaken
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
    """All findings as of now, and the edits in view files that do not count."""

    ledger: Ledger
    problems: tuple[str, ...] = ()


def read_snapshot(store: Path, root: Path, at: str) -> LedgerSnapshot:
    """Return the findings of a store, as every command does that only reads.

    What was said in the view files is recorded, and whatever else was edited there is put back. Without such files
    nothing is written.
    """
    views = Views(root, store)
    if not views.exist:
        with closing(SqliteJournal(store)) as journal:
            ledger = LedgerStore(journal, untaken(journal)).ledger()
            return LedgerSnapshot(ledger.extended(expire(ledger, at)))
    with lock_ledger(store), closing(SqliteJournal(store)) as journal:
        kept = LedgerStore(journal, untaken(journal))
        kept.append(expire(kept.ledger(), at))
        return LedgerSnapshot(kept.ledger(), views.look(kept, at).problems)


def with_view_edits(ledger: Ledger, root: Path, store: Path, at: str) -> LedgerSnapshot:
    """Add what was said in the view files to a ledger that nothing else uses, where nothing may be written."""
    edits = Views(root, store).read_edits(ledger, at)
    for event in (*edits.events, *expire(ledger, at)):
        ledger.apply(event)
    return LedgerSnapshot(ledger, edits.problems)


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """A ledger that only this command may add to."""

    store: LedgerStore
    views: Views
    at: str
    problems: tuple[str, ...] = ()  # edits in view files that do not count

    @property
    def ledger(self) -> Ledger:
        """All findings as of now."""
        return self.store.ledger()

    def record(self, events: Sequence[LedgerEvent]) -> tuple[str, ...]:
        """Add events, all or none, and bring the view files up to date; return the problems with those."""
        self.store.append(events)
        return self.views.write(self.ledger).problems


@contextmanager
def open_ledger(store: Path, repository: Repository, now: datetime) -> Iterator[OpenLedger]:
    """Lock the ledger of a store for adding to it. What was said in the view files is recorded first."""
    at, trust = timestamp(now), Trust(repository.trusted, repository.environment)
    with lock_ledger(store), closing(SqliteJournal(store)) as journal:
        kept, views = LedgerStore(journal, untaken(journal)), Views(repository.root, store, trust)
        kept.append(expire(kept.ledger(), at))
        yield OpenLedger(kept, views, at, views.look(kept, at).problems)


def timestamp(now: datetime) -> str:
    """A time as the ledger stores it: whole seconds, in UTC."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
