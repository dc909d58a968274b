"""Reading `review.findings`: reports grouped by stage, the most pressing first.

Entries are taken as they come: what is missing or of the wrong type is left blank, and no entry is refused.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any

from pipeline.engine.context import Context, is_extension
from pipeline.engine.outcome import Status
from pipeline.summary.budget import counted
from pipeline.summary.markdown import as_text

REPORTS_KEY = "review.findings"  # the context key of the open reports
_READ = 10  # reports of one stage that are looked at
_MOST_VISITS = 10**9  # no run comes here; a number beyond it is a mistake
_SEVERITY = {Status.FAIL: 0, Status.PARTIAL_SUCCESS: 1}


@dataclass(frozen=True, slots=True)
class StageReport:
    """What one visit of a stage reported."""

    stage: str
    iteration: int | None
    status: str
    reason: str
    response: str  # as it is shown
    timestamp: str
    whole: str = ""  # the response as it was reported


@dataclass(frozen=True, slots=True)
class StageReports:
    """The reports of one stage."""

    newest: StageReport
    earlier: Sequence[StageReport]  # the latest of those before it, oldest first
    before: int  # how many are older still


@dataclass(slots=True)
class _Stage:
    """The reports of one stage so far."""

    count: int = 0
    latest: deque[StageReport] = field(default_factory=lambda: deque(maxlen=_READ))

    def group(self) -> StageReports:
        ordered = sorted(self.latest, key=_iteration)
        return StageReports(ordered[-1], ordered[:-1], self.count - len(ordered))


class ReportIndex:
    """A run's reports by stage. While reports are only added, none is read for two summaries.

    Of each stage only the latest are read at all: one that failed a thousand times costs no more than one that failed
    ten times.
    """

    def __init__(self) -> None:
        self._seen: Sequence[Any] = ()
        self._stages: dict[str, _Stage] = {}

    def groups(self, context: Context) -> list[StageReports]:
        """The stages with reports: failed ones before those that passed in part, the newest first."""
        entries = _entries(context)
        if not is_extension(self._seen, entries):
            self._seen, self._stages = (), {}
        self._add(entries[len(self._seen) :])
        self._seen = entries
        return sorted((stage.group() for stage in self._stages.values()), key=_order)

    def _add(self, entries: Sequence[Any]) -> None:
        added: dict[str, list[Any]] = {}
        for entry in entries:
            added.setdefault(_name(entry), []).append(entry)
        for name, own in added.items():
            stage = self._stages.setdefault(name, _Stage())
            stage.count += len(own)
            stage.latest.extend(map(_read, own[-_READ:]))


def _name(entry: Any) -> str:
    return as_text(entry.get("stageId")) if isinstance(entry, dict) else ""


def _entries(context: Context) -> Sequence[Any]:
    """The list of reports; what is no list is one."""
    if reports := context.list_at(REPORTS_KEY):
        return reports
    found = context.get(REPORTS_KEY)
    return [found] if found else []


def _read(entry: Any) -> StageReport:
    if not isinstance(entry, dict):
        return StageReport("", None, "", "", text := as_text(entry), "", text)
    iteration = entry.get("iteration")
    return StageReport(
        stage=as_text(entry.get("stageId")),
        iteration=iteration if _is_count(iteration) else None,
        status=as_text(entry.get("status")),
        reason=as_text(entry.get("failureReason")),
        response=_response(entry),
        timestamp=as_text(entry.get("timestamp")),
        whole=as_text(entry.get("response")),
    )


def _response(entry: dict[str, Any]) -> str:
    """What a report says; where its findings are known one by one, they are listed by their numbers instead."""
    listed = entry.get("findingIds")
    if isinstance(listed, list) and listed:
        return f"{counted(len(listed), 'finding')}, listed by number under 'Findings by file'."
    return as_text(entry.get("response"))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_VISITS


def _iteration(report: StageReport) -> float:
    return -1 if report.iteration is None else report.iteration


def _order(group: StageReports) -> tuple[float, ...]:
    newest = group.newest
    severity = next((rank for status, rank in _SEVERITY.items() if newest.status == status), len(_SEVERITY))
    return (severity, -_moment(newest.timestamp), -_iteration(newest))


def _moment(timestamp: str) -> float:
    """Seconds since the epoch; a time that cannot be read is the oldest."""
    try:
        moment = datetime.fromisoformat(timestamp)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return -inf
