"""The visits of a run in the order of time, the newest first, each with the place of its bar beside the others."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.app.history import AttemptEnd, RunNote, VisitRecord
from pipeline.app.overview import running_status
from pipeline.engine.state import RunStatus, State
from pipeline.language.model import waits_for_person
from pipeline.web.following import RunSnapshot

SHOWN = 100
WIDE = 1000  # units from the left to the right end of the bars
_LEAST = 6.0  # units of a bar that would be too short to see


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A visit with its bar, or a note."""

    at: float
    note: str = ""
    seen: VisitRecord | None = None
    status: str = ""
    left: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Some rows of a run, and which."""

    rows: tuple[TimelineRow, ...]
    first: int  # where they begin in the whole, from 0
    end: int
    total: int
    stage: str  # whose visits they are; empty for all

    @property
    def newer(self) -> int:
        """The end of the page of newer rows; 0 where that is the newest."""
        return self.end + SHOWN if self.end + SHOWN < self.total else 0


def timeline(seen: RunSnapshot, now: float, stage: str = "", before: int = 0) -> Timeline:
    """The newest rows, or those before a place."""
    parts = [part for part in _parts(seen) if not stage or (isinstance(part, VisitRecord) and part.stage == stage)]
    end = min(before, len(parts)) if before > 0 else len(parts)
    first = max(end - SHOWN, 0)
    shown = parts[first:end]
    axis = _Axis(shown, seen.state, now)
    rows = tuple(_row(part, axis, seen) for part in reversed(shown))
    return Timeline(rows, first, end, len(parts), stage)


def _parts(seen: RunSnapshot) -> list[VisitRecord | RunNote]:
    """All that happened, and the stage that waits for a person: its visit is recorded when it is answered."""
    state = seen.state
    waits = not state.status.final and waits_for_person(state.stage)
    asked = [VisitRecord(state.cursor.stage, state.cursor.visit, seen.history.at)] if waits else []
    return [*seen.history.timeline, *asked]


def _row(part: VisitRecord | RunNote, axis: "_Axis", seen: RunSnapshot) -> TimelineRow:
    if isinstance(part, RunNote):
        return TimelineRow(part.at, note=part.text)
    left = axis.place(part.began)
    width = max(axis.place(axis.end_of(part)) - left, _LEAST)
    return TimelineRow(
        part.began,
        seen=part,
        status=status_of(part, seen),
        left=round(min(left, WIDE - width), 1),
        width=round(width, 1),
    )


def status_of(visit: VisitRecord, seen: RunSnapshot) -> str:
    """How a visit ended, or how the run stands at it."""
    if visit.outcome:
        return str(visit.outcome.status)
    if visit.error:
        return str(visit.error.status)
    if visit.end is AttemptEnd.CANCELLED:
        return str(RunStatus.CANCELLED)
    if seen.state.status is RunStatus.RUNNING:
        return running_status(driven=seen.driven)
    return str(seen.state.status)


class _Axis:
    """Time as far as something ran: hours in which a run waited for a person would leave no room for the rest."""

    def __init__(self, parts: Iterable[VisitRecord | RunNote], state: State, now: float) -> None:
        self._now = now
        self._state = state
        visits = [part for part in parts if isinstance(part, VisitRecord) and not self._asks(part)]
        self._spans = _merged([(one.began, max(self.end_of(one), one.began)) for one in visits])
        self._whole = sum(end - start for start, end in self._spans) or 1.0

    def end_of(self, visit: VisitRecord) -> float:
        if visit.ended is not None:
            return visit.ended
        return visit.began if self._asks(visit) else self._now

    def place(self, moment: float) -> float:
        run = sum(min(end, moment) - start for start, end in self._spans if start < moment)
        return WIDE * run / self._whole

    def _asks(self, visit: VisitRecord) -> bool:
        stage = self._state.workflow.by_id.get(visit.stage)
        return stage is not None and waits_for_person(stage)


def _merged(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spans of time that these cover together."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
