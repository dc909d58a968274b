"""Reads the reports of stages that are still open, by stage, the most urgent first.

Entries are taken as they are: a missing field or one of the wrong type is left blank, and no entry is refused.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any

from pipeline.engine.context import Context, is_extension
from pipeline.engine.outcome import Status
from pipeline.text import plural, value_text

_MAX_READ = 10  # reports of one stage that are read
_MAX_ITERATION = 10**9  # a larger number is a mistake
_URGENCY = (Status.FAIL, Status.PARTIAL_SUCCESS)


@dataclass(frozen=True, slots=True)
class StageReport:
    """What one visit of a stage reported."""

    stage: str
    iteration: int | None
    status: str
    reason: str
    response: str  # as it is shown
    timestamp: str
    full_response: str = ""  # as it was reported


@dataclass(frozen=True, slots=True)
class StageReports:
    """The open reports of one stage."""

    newest: StageReport
    earlier: Sequence[StageReport]  # the latest of those before it, oldest first
    older: int  # how many came before those


@dataclass(slots=True)
class _ReadReports:
    """The reports of one stage as far as they were read."""

    count: int = 0
    latest: deque[StageReport] = field(default_factory=lambda: deque(maxlen=_MAX_READ))


class ReportIndex:
    """A run's open reports by stage. Reports are only added most of the time: then only the new ones are read.

    `key` is the context key that holds them. Of each stage only the latest are read at all: a thousand failures cost no
    more than ten.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._entries: Sequence[Any] = ()
        self._stages: dict[str, _ReadReports] = {}

    def groups(self, context: Context) -> list[StageReports]:
        """The stages with open reports: failed ones before partly successful ones, the newest first."""
        entries = context.list_at(self._key)
        if not entries:  # a value that is not a list is shown as a single report
            entries = [found] if (found := context.get(self._key)) else []
        if not is_extension(self._entries, entries):
            self._entries, self._stages = (), {}
        added: dict[str, list[Any]] = {}
        for entry in entries[len(self._entries) :]:
            stage = value_text(entry.get("stageId")) if isinstance(entry, dict) else ""
            added.setdefault(stage, []).append(entry)
        for stage, reports in added.items():
            known = self._stages.setdefault(stage, _ReadReports())
            known.count += len(reports)
            known.latest.extend(map(_read_report, reports[-_MAX_READ:]))
        self._entries = entries
        groups = []
        for known in self._stages.values():
            *earlier, newest = sorted(known.latest, key=_iteration)
            groups.append(StageReports(newest, earlier, known.count - len(known.latest)))
        return sorted(groups, key=_sort_key)


def _read_report(entry: Any) -> StageReport:
    if not isinstance(entry, dict):
        text = value_text(entry)
        return StageReport("", None, "", "", text, "", text)
    iteration = entry.get("iteration")
    is_number = isinstance(iteration, int) and not isinstance(iteration, bool) and 0 <= iteration < _MAX_ITERATION
    response = full_response = value_text(entry.get("response"))
    finding_ids = entry.get("findingIds")
    if isinstance(finding_ids, list) and finding_ids:
        response = f"{plural(len(finding_ids), 'finding')}, listed by number below."
    return StageReport(
        stage=value_text(entry.get("stageId")),
        iteration=iteration if is_number else None,
        status=value_text(entry.get("status")),
        reason=value_text(entry.get("failureReason")),
        response=response,
        timestamp=value_text(entry.get("timestamp")),
        full_response=full_response,
    )


def _iteration(report: StageReport) -> float:
    return -1 if report.iteration is None else report.iteration


def _sort_key(reports: StageReports) -> tuple[float, ...]:
    newest = reports.newest
    urgency = next((rank for rank, status in enumerate(_URGENCY) if newest.status == status), len(_URGENCY))
    try:
        moment = datetime.fromisoformat(newest.timestamp)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):  # a time that cannot be read counts as the oldest
        seconds = -inf
    return urgency, -seconds, -_iteration(newest)
