"""The visits of a run, newest first, each with a bar that shows when it ran."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.app.history import AttemptEnd, RunNote, VisitRecord
from pipeline.app.overview import running_status
from pipeline.engine.state import RunStatus, State
from pipeline.language.model import waits_for_person
from pipeline.web.store import RunSnapshot

PAGE_SIZE = 100
WIDTH = 1000  # units of all bars together
_MIN_BAR = 6.0  # units; a shorter bar would be invisible


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A visit with its bar, or a note."""

    at: float
    note: str = ""
    visit: VisitRecord | None = None
    status: str = ""
    left: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, slots=True)
class Timeline:
    """One page of rows."""

    rows: tuple[TimelineRow, ...]
    first: int  # of all rows, oldest first and counted from 0
    end: int
    total: int
    stage: str  # whose visits they are; empty for all

    @property
    def newer(self) -> int:
        """The end of the page with newer rows; 0 for the newest page."""
        return self.end + PAGE_SIZE if self.end + PAGE_SIZE < self.total else 0


def build_timeline(run: RunSnapshot, now: float, stage: str = "", before: int = 0) -> Timeline:
    """The newest rows, or those before row `before`."""
    entries: list[VisitRecord | RunNote] = list(run.history.timeline)
    if not run.state.status.final and waits_for_person(run.state.stage):  # its visit is recorded when it is answered
        entries.append(VisitRecord(*run.state.cursor, run.history.at))
    if stage:
        entries = [entry for entry in entries if isinstance(entry, VisitRecord) and entry.stage == stage]
    end = min(before, len(entries)) if before > 0 else len(entries)
    first = max(end - PAGE_SIZE, 0)
    axis = _Axis(entries[first:end], run.state, now)
    rows = tuple(_row(entry, axis, run) for entry in reversed(entries[first:end]))
    return Timeline(rows, first, end, len(entries), stage)


def visit_status(visit: VisitRecord, run: RunSnapshot) -> str:
    """How a visit ended, or the status of the run while it has not."""
    if ended := visit.outcome or visit.error:
        return str(ended.status)
    if visit.end is AttemptEnd.CANCELLED:
        return str(RunStatus.CANCELLED)
    if run.state.status is RunStatus.RUNNING:
        return running_status(driven=run.driven)
    return str(run.state.status)


def _row(entry: VisitRecord | RunNote, axis: "_Axis", run: RunSnapshot) -> TimelineRow:
    if isinstance(entry, RunNote):
        return TimelineRow(entry.at, note=entry.text)
    left = axis.position(entry.began)
    width = max(axis.position(axis.end_of(entry)) - left, _MIN_BAR)
    left = min(left, WIDTH - width)
    return TimelineRow(
        entry.began, visit=entry, status=visit_status(entry, run), left=round(left, 1), width=round(width, 1)
    )


class _Axis:
    """Time as far as something ran: the hours in which a run waits for a person would leave no room for the rest."""

    def __init__(self, entries: Iterable[VisitRecord | RunNote], state: State, now: float) -> None:
        self._state = state
        self._now = now
        visits = [entry for entry in entries if isinstance(entry, VisitRecord) and not self._asks(entry)]
        self._spans = _merge([(visit.began, max(self.end_of(visit), visit.began)) for visit in visits])
        self._total = sum(end - start for start, end in self._spans) or 1.0

    def end_of(self, visit: VisitRecord) -> float:
        if visit.ended is not None:
            return visit.ended
        return visit.began if self._asks(visit) else self._now

    def position(self, moment: float) -> float:
        before = sum(min(end, moment) - start for start, end in self._spans if start < moment)
        return WIDTH * before / self._total

    def _asks(self, visit: VisitRecord) -> bool:
        stage = self._state.workflow.by_id.get(visit.stage)
        return stage is not None and waits_for_person(stage)


def _merge(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spans of time that these cover together."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
