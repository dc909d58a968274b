"""Writes the next records of a run for one order, and finds out when somebody else was ordered to instead."""

from collections.abc import Callable, Sequence

from pipeline.cluster.artefacts import Artefacts
from pipeline.cluster.journal import JournalObject, SharedJournal
from pipeline.cluster.orders import AttemptRequest
from pipeline.engine.records import AnyRecord, AttemptFailed, BranchCompleted, StageErrored, VisitStarted
from pipeline.errors import AwfError


class Replaced(AwfError):
    """Somebody else has written the next record of this run: what was done here does not count."""


class Pen(SharedJournal):
    """A journal that adds only after the records that are known.

    At an attempt of a branch, those of its earlier attempts and of other branches may come in between.
    """

    def __init__(
        self,
        store: Artefacts,
        run_id: str,
        after: int,
        branch: AttemptRequest | None = None,
        first: Callable[[AnyRecord], None] = lambda _: None,  # what has to be done before a record is written
    ) -> None:
        super().__init__(store, run_id)
        self._first = first
        self._next = after + 1
        self._branch = branch
        self.written: list[JournalObject] = []

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        self._first(record)
        while not self.write(run_id, self._next, record, attached, lines):
            self._pass_over(run_id, self._next)
            self._next += 1
        self.written.append(JournalObject(self._next, record))
        self._next += 1
        return self._next - 1

    def _pass_over(self, run_id: str, seq: int) -> None:
        page = next(self.pages(run_id, seq - 1))
        if page.record is not None and not (self._branch and _is_beside(page.record, self._branch)):
            raise Replaced(f"record {seq} of run {run_id} was written by somebody else: {page.record.kind}")


def _is_beside(record: AnyRecord, mine: AttemptRequest) -> bool:
    """Whether a record may come before that of an attempt at a branch."""
    match record:
        case BranchCompleted():
            return record.branch != mine.stage
        case VisitStarted() | AttemptFailed() | StageErrored():
            return record.stage != mine.stage or record.attempt < mine.attempt
        case _:
            return False
