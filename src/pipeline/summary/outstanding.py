"""Reading `review.findings`: reports grouped by stage, the most pressing first.

Entries are taken as they come: what is missing or of the wrong type is left blank, and no entry is refused.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from operator import itemgetter
from typing import Any

from pipeline.engine.context import Context, Key
from pipeline.engine.outcome import Status
from pipeline.summary.budget import counted
from pipeline.summary.fence import as_text

_READ = 10  # reports of one stage that are looked at
_MOST_VISITS = 10**9  # no run comes here; a number beyond it is a mistake
_SEVERITY = {Status.FAIL: 0, Status.PARTIAL_SUCCESS: 1}


@dataclass(frozen=True, slots=True)
class Report:
    """What one visit of a stage reported."""

    stage: str
    iteration: int | None
    status: str
    reason: str
    response: str  # as it is shown
    timestamp: str
    whole: str = ""  # the response as it was reported


@dataclass(frozen=True, slots=True)
class Group:
    """The reports of one stage."""

    newest: Report
    earlier: Sequence[Report]  # the latest of those before it, oldest first
    before: int  # how many are older still


def outstanding(context: Context) -> list[Group]:
    """The stages with reports: failed ones before those that passed in part, the newest first.

    Of each stage only the latest reports are read: a stage that failed a thousand times costs little more than one that
    failed ten times.
    """
    entries = _entries(context)
    names = _names(entries)
    counts = Counter(names)
    latest: dict[str, list[Any]] = {name: [] for name in counts}
    missing = sum(min(count, _READ) for count in counts.values())
    for name, entry in zip(reversed(names), reversed(entries), strict=True):
        if not missing:
            break
        if len(latest[name]) < _READ:
            latest[name].append(entry)
            missing -= 1
    groups = [_group([_read(entry) for entry in reversed(latest[name])], counts[name]) for name in counts]
    return sorted(groups, key=_order)


def _names(entries: Sequence[Any]) -> list[str]:
    """The stage of each entry; by far the most entries are what they should be."""
    try:
        names = list(map(itemgetter("stageId"), entries))
    except (TypeError, KeyError):
        names = [entry.get("stageId") if isinstance(entry, dict) else None for entry in entries]
    return names if set(map(type, names)) <= {str} else [as_text(name) for name in names]


def _entries(context: Context) -> Sequence[Any]:
    found = context.get(Key.FINDINGS)
    if isinstance(found, list | tuple):
        return found
    return [found] if found else []


def _read(entry: Any) -> Report:
    if not isinstance(entry, dict):
        return Report("", None, "", "", text := as_text(entry), "", text)
    iteration = entry.get("iteration")
    return Report(
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


def _group(reports: list[Report], count: int) -> Group:
    ordered = sorted(reports, key=_iteration)
    return Group(ordered[-1], ordered[:-1], count - len(ordered))


def _iteration(report: Report) -> float:
    return -1 if report.iteration is None else report.iteration


def _order(group: Group) -> tuple[float, ...]:
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
