"""Runs as their pages show them, kept from one look to the next: only what a run added since is read.

A run can also be seen as it stood after any of its records, which is read from its beginning.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from threading import Lock

from pipeline.app.history import RunHistory, RunNote, VisitRecord
from pipeline.app.overview import IsDriven, RunOverview, standing
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import Journal, JournalEntry
from pipeline.engine.records import AnyRecord, RunCreated
from pipeline.engine.state import State
from pipeline.errors import AwfError
from pipeline.journal.lock import is_driven

_KEPT = 24  # runs


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run as it stood after one of its records. What its stages answered is not in it: that may be much."""

    state: State
    story: tuple[VisitRecord | RunNote, ...]
    began: float
    at: float  # when the record was written
    position: int  # its number
    head: int  # that of the last record there is
    commit: str  # that was checked out when the run began
    driven: bool | None  # whether somebody is at it, where that is known; at an earlier record one was

    @property
    def now(self) -> bool:
        """Whether this is how it stands, and not how it once stood."""
        return self.position == self.head

    @property
    def visits(self) -> tuple[VisitRecord, ...]:
        """Its visits, in the order they ended."""
        return tuple(part for part in self.story if isinstance(part, VisitRecord))

    def standing(self) -> RunOverview:
        """The run at a glance."""
        return standing(self.state, self.visits, self.began, driven=self.driven)


class _Followed:
    """One run, record by record."""

    def __init__(self, first: JournalEntry) -> None:
        self._story = RunHistory(first.record)
        self._began = self._at = first.record.at
        self._commit = first.record.head if isinstance(first.record, RunCreated) else ""
        self.position = first.seq

    def take(self, entry: JournalEntry) -> None:
        self._story.take(_light(entry.record))
        self._at, self.position = entry.record.at, entry.seq

    def seen(self, head: int, *, driven: bool | None) -> RunSnapshot:
        story = self._story
        told = tuple(story.told())
        return RunSnapshot(story.state, told, self._began, self._at, self.position, head, self._commit, driven)


class FollowedRuns:
    """The runs of one store that somebody looks at. Several threads may ask at once."""

    def __init__(self, store: Path, driven: IsDriven | None = None) -> None:
        self._driven = driven or partial(is_driven, store)
        self._lock = Lock()
        self._kept: OrderedDict[str, _Followed] = OrderedDict()

    def now(self, journal: Journal, run: str) -> RunSnapshot:
        """A run as it stands."""
        with self._lock:
            known = self._kept.pop(run, None)
            if known and journal.last(run).seq < known.position:  # another store has taken the place of this one
                known = None
            followed = _read(journal.entries(run, known.position if known else 0), known)
            self._kept[run] = followed
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return followed.seen(followed.position, driven=self._driven(run))


def then(journal: Journal, run: str, position: int) -> RunSnapshot:
    """A run as it stood after the record of a number; the first or the last, where there is none."""
    head = journal.last(run).seq
    wanted = min(max(position, 1), head)
    upto = takewhile(lambda entry: entry.seq <= wanted, journal.entries(run))
    return _read(upto, None).seen(head, driven=True)


def _read(entries: Iterable[JournalEntry], followed: _Followed | None) -> _Followed:
    for entry in entries:
        if followed is None:
            followed = _Followed(entry)
        else:
            followed.take(entry)
    if followed is None:
        raise AwfError("this run has no records", help="its store is damaged: restore it from a copy")
    return followed


def _light(record: AnyRecord) -> AnyRecord:
    """A record without what its stage answered, which its operations have put where the run needs it."""
    outcome = getattr(record, "outcome", None)
    if not isinstance(outcome, Outcome):
        return record
    changed: dict[str, object] = {"outcome": _lighter(outcome)}
    if branches := getattr(record, "branches", ()):
        changed["branches"] = tuple(one.model_copy(update={"outcome": _lighter(one.outcome)}) for one in branches)
    return record.model_copy(update=changed)


def _lighter(outcome: Outcome) -> Outcome:
    return outcome.model_copy(update={"response": "", "updates": {}})
