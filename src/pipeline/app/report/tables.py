"""The words and numbers of a page, the same for every form of it. Each text is one line, calm and not long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath

from pipeline.app.history import StageTotals
from pipeline.app.report.model import FindingRow, PathStep, RunReport
from pipeline.text import format_cost, format_count, format_duration, plural, sanitize_line, truncate

FOLDED = 12  # steps, from which on a path is folded away
SHOWN = 200  # findings, and lines of a history
_LONGEST_CYCLE = 8
_SAID = 300
_NAME = 60
_GOAL = 4000


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows below a heading; the columns in `right` hold numbers, that in `status` a word with a colour."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    status: int | None = None


def line(text: str, most: int = _SAID) -> str:
    """A text from anywhere, on one line."""
    return truncate(sanitize_line(text[: 4 * most]), most)


def goal_lines(report: RunReport) -> list[str]:
    """What was asked, line by line."""
    lines = [line(one, _GOAL) for one in report.goal[:_GOAL].strip().splitlines()]
    return [*lines, "…"] if len(report.goal) > _GOAL else lines


def title(report: RunReport) -> str:
    """What the page is called."""
    return line(report.workflow, _NAME) or report.run_id


def _ending(report: RunReport) -> str:
    return f"{report.status}: {line(report.reason)}" if report.reason else report.status


def facts(report: RunReport) -> Iterator[tuple[str, str]]:
    """The run at a glance."""
    yield "run", line(report.run_id, _NAME)
    yield "workflow", f"{title(report)} ({line(PurePath(report.file).name)})" if report.file else title(report)
    yield "outcome", _ending(report)
    if report.until is not None:
        yield "quota resets", moment(report.until)
    if report.resume:
        yield "continue with", line(report.resume)
    yield "began", moment(report.began)
    yield "last record", moment(report.ended)
    yield "time running", format_duration(report.seconds)
    yield "tokens", format_count(report.tokens) if report.tokens else "none on record"
    yield "cost", format_cost(report.cost_usd) if report.cost_usd else "none on record"
    if diff := report.diff:
        until = ", from its start to the files as they are now" if diff.so_far else ""
        yield "change", f"{plural(diff.files, 'file')}, +{diff.added} \N{MINUS SIGN}{diff.removed} lines{until}"


def moment(at: float) -> str:
    """A time that is the same for every reader."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def path(steps: Sequence[PathStep]) -> ReportTable:
    """Every step, in order."""
    head = ("stage", "visit", "outcome", "from", "time", "goes to", "why")
    return ReportTable(head, tuple(map(_step, steps)), frozenset({1, 4}), 2)


def _step(step: PathStep) -> tuple[str, ...]:
    if not step.stage:
        return ("", "", "", "", "", "", line(step.said))
    within = f" (in {line(step.within, _NAME)})" if step.within else ""
    tries = f"attempt {step.attempt}: " if step.attempt else f"{step.attempts} attempts. " if step.attempts > 1 else ""
    time = format_duration(step.seconds) if step.seconds is not None else ""
    name = line(step.stage, _NAME) + within
    return (name, str(step.visit), step.status, step.source, time, line(step.to, _NAME), tries + line(step.said))


def way(steps: Sequence[PathStep]) -> str:
    """The path on one line, what was repeated in brackets with how often."""
    visits = [step for step in steps if step.stage and not step.within and not step.attempt]
    names = [line(step.stage, _NAME) + (" (error)" if step.status == "error" else "") for step in visits]
    parts: list[str] = []
    while names:
        period, times = _cycle(names)
        words = " → ".join(names[:period])
        parts.append(words if times == 1 else f"({words}) × {times}" if period > 1 else f"{words} × {times}")
        names = names[period * times :]
    return " → ".join(parts)


def _cycle(names: Sequence[str]) -> tuple[int, int]:
    """How many names at the beginning are repeated at once, and how often: what takes most of them away."""
    longest = min(_LONGEST_CYCLE, len(names) // 2)
    found = [(period, _times(names, period)) for period in range(1, longest + 1)]
    repeated = [pair for pair in found if pair[1] > 1]
    return max(repeated, key=lambda pair: (pair[0] * pair[1], -pair[0]), default=(1, 1))


def _times(names: Sequence[str], period: int) -> int:
    times = 1
    while names[times * period : (times + 1) * period] == names[:period]:
        times += 1
    return times


def rounds(report: RunReport) -> ReportTable:
    """The rounds in numbers."""
    head = ("round", "outstanding", "new", "resolved", "carried", "regressed", "late", "caused by a fix")
    rows = (
        (one.number, one.outstanding, one.new, one.resolved, one.carried, one.regressed, one.late, one.caused_by_fix)
        for one in report.reviewed.rounds
    )
    return ReportTable(head, tuple(tuple(map(str, row)) for row in rows), frozenset(range(len(head))))


def findings(told: Sequence[FindingRow]) -> ReportTable:
    """A row for each finding."""
    head = ("no.", "severity", "state", "place", "finding", "tried")
    return ReportTable(head, tuple(map(_finding, told)), frozenset({0, 5}), 2)


def _finding(one: FindingRow) -> tuple[str, ...]:
    severity = f"{one.severity}, must" if one.must else one.severity
    tried = str(len(one.attempts)) if one.attempts else ""
    return (str(one.number), severity, one.state, line(one.place), line(one.title), tried)


def history(told: FindingRow) -> list[str]:
    """What became of a finding, and what was tried."""
    lines = [*told.history, *(f"tried: {attempt}" for attempt in told.attempts)]
    left = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return [line(one) for one in lines[:SHOWN]] + left


def outstanding(report: RunReport) -> ReportTable:
    """What stages reported and nobody has resolved."""
    rows = ((line(stage, _NAME), str(visit), line(said)) for stage, visit, said in report.outstanding[-SHOWN:])
    return ReportTable(("stage", "visit", "reported"), tuple(rows), frozenset({1}))


def notes(report: RunReport) -> ReportTable:
    """What was put back in view files, newest last."""
    rows = ((line(stage, _NAME), str(visit), line(said)) for stage, visit, said in report.notes[-SHOWN:])
    return ReportTable(("stage", "visit", "note"), tuple(rows), frozenset({1}))


def stages(report: RunReport) -> ReportTable:
    """What each stage took, and all together."""
    head = ("stage", "visits", "last", "time", "tokens", "cost")
    return ReportTable(head, (*map(_stage, report.stages), _total(report)), frozenset({1, 3, 4, 5}), 2)


def _stage(one: StageTotals) -> tuple[str, ...]:
    last = one.last.status if one.last else ""
    return (line(one.stage, _NAME), str(one.visits), last, *_taken(one.seconds, one.tokens, one.cost_usd))


def _total(report: RunReport) -> tuple[str, ...]:
    # Branches run side by side: the time of the run is less than the sum of theirs.
    visits = str(sum(one.visits for one in report.stages))
    return ("the run", visits, "", *_taken(report.seconds, report.tokens, report.cost_usd))


def _taken(seconds: float, tokens: int, cost: float) -> tuple[str, str, str]:
    return format_duration(seconds), format_count(tokens) if tokens else "", format_cost(cost) if cost else ""
