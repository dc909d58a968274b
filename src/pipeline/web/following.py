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

from pipeline.app.history import HistoryBuilder, RunHistory, VisitRecord
from pipeline.app.overview import IsDriven, RunOverview, overview_of
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import Journal, JournalEntry, JournalError
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import State
from pipeline.journal.lock import is_driven

_KEPT = 24  # runs


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run as it stood after one of its records. What its stages answered is not in it: that may be much."""

    history: RunHistory
    head: int  # the number of the last record there is
    driven: bool | None  # whether somebody is at it, where that is known; at an earlier record one was

    @property
    def state(self) -> State:
        """Its state."""
        return self.history.state

    @property
    def position(self) -> int:
        """The number of the record."""
        return self.history.position

    @property
    def now(self) -> bool:
        """Whether this is how it stands, and not how it once stood."""
        return self.position == self.head

    @property
    def visits(self) -> list[VisitRecord]:
        """Its visits, in the order they ended."""
        return self.history.visits

    def overview(self) -> RunOverview:
        """The run at a glance."""
        return overview_of(self.history, driven=self.driven)


class FollowedRuns:
    """The runs of one store that somebody looks at. Several threads may ask at once."""

    def __init__(self, store: Path, driven: IsDriven | None = None) -> None:
        self._driven = driven or partial(is_driven, store)
        self._lock = Lock()
        self._kept: OrderedDict[str, HistoryBuilder] = OrderedDict()

    def now(self, journal: Journal, run: str) -> RunSnapshot:
        """A run as it stands."""
        with self._lock:
            known = self._kept.pop(run, None)
            if known and journal.last(run).seq < known.position:  # another store has taken the place of this one
                known = None
            builder = read_on(journal.entries(run, known.position if known else 0), known)
            self._kept[run] = builder
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return RunSnapshot(builder.build(), builder.position, self._driven(run))


def then(journal: Journal, run: str, position: int) -> RunSnapshot:
    """A run as it stood after the record of a number; the first or the last, where there is none."""
    head = journal.last(run).seq
    wanted = min(max(position, 1), head)
    upto = takewhile(lambda entry: entry.seq <= wanted, journal.entries(run))
    return RunSnapshot(read_on(upto, None).build(), head, driven=True)


def read_on(entries: Iterable[JournalEntry], builder: HistoryBuilder | None) -> HistoryBuilder:
    """The history with more records, or that of a run from its first record."""
    for entry in entries:
        if builder is None:
            builder = HistoryBuilder(entry.record)
        else:
            builder.add(_light(entry.record))
    if builder is None:
        raise JournalError("this run has no records", help="its store is damaged: restore it from a copy")
    return builder


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
