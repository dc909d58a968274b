"""The runs of a store in one line each, kept from one look to the next: only what a run added since is read."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock

from pipeline.app.history import HistoryBuilder
from pipeline.app.overview import IsDriven, RunSummary, summarize, summarize_ends
from pipeline.engine.ports import Journal, JournalError
from pipeline.errors import AwfError
from pipeline.journal.lock import is_driven
from pipeline.journal.sqlite import LEDGER, SqliteJournal, StoreHeads
from pipeline.web.following import read_on

UNREADABLE = "unreadable"  # its records are damaged, or a newer awf wrote them
_GOAL = 1000  # characters of a goal that are kept, and searched
_GATHERED = 32  # runs whose next record is taken without reading those before it again
_ASSESSED = '{"kind":"assessed"'


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in one line, with its rounds of reviews."""

    summary: RunSummary
    rounds: int

    def matches(self, status: str, words: str) -> bool:
        """Whether it has a status, and all words somewhere in what it is called; empty ones ask for nothing."""
        one = self.summary
        text = f"{one.run_id} {one.workflow} {one.goal} {one.stage}".casefold()
        return (not status or one.status == status) and all(word in text for word in words.casefold().split())


class RunListing:
    """The lines of one store. Several threads may ask at once."""

    def __init__(self, store: Path, driven: IsDriven | None = None) -> None:
        self._store = store
        self._driven = driven or partial(is_driven, store)
        self._lock = Lock()
        self._known: dict[str, tuple[int, RunSummary]] = {}  # with the number of the record it was made at
        self._open: OrderedDict[str, HistoryBuilder] = OrderedDict()
        self._rounds: dict[str, set[int]] = {}
        self._assessed = 0  # lines of the ledger

    def lines(self) -> Iterator[RunLine]:
        """Every run, the newest first; a line is made when it is asked for."""
        with closing(StoreHeads(self._store)) as asked, closing(SqliteJournal(self._store)) as journal:
            heads = asked.read()
            with self._lock:
                self._count_rounds(journal, heads.pop(LEDGER, 0))
                for gone in self._known.keys() - heads.keys():
                    del self._known[gone]
            for run, head in reversed(heads.items()):
                with self._lock:
                    summary = self._summary(journal, run, head)
                yield RunLine(summary.resolve_status(self._driven), len(self._rounds.get(run, ())))

    def _summary(self, journal: Journal, run: str, head: int) -> RunSummary:
        at, known = self._known.get(run, (0, None))
        if known is None or at < head:
            known = self._read(journal, run, self._open.pop(run, None) if known else None)
            self._known[run] = (head, replace(known, goal=known.goal[:_GOAL]))
        return known

    def _read(self, journal: Journal, run: str, builder: HistoryBuilder | None) -> RunSummary:
        """The line of a run, from the records after those that are gathered."""
        try:
            builder = read_on(journal.entries(run, builder.position if builder else 0), builder)
        except JournalError as error:
            return RunSummary(run, "", "", 0.0, 0.0, UNREADABLE, error.message)
        except AwfError as error:
            return summarize_ends(journal, run, error.message)
        self._open[run] = builder
        if len(self._open) > _GATHERED:
            self._open.popitem(last=False)
        return summarize(builder.build())

    def _count_rounds(self, journal: Journal, head: int) -> None:
        if head < self._assessed:  # another ledger has taken its place
            self._assessed, self._rounds = 0, {}
        for number, line in journal.ledger(self._assessed) if head > self._assessed else ():
            if line.startswith(
                _ASSESSED
            ):  # only two fields of it are of use here, and what is at its default is left out
                assessment = json.loads(line)["assessment"]
                self._rounds.setdefault(assessment.get("run", ""), set()).add(assessment.get("round", 1))
            self._assessed = number
