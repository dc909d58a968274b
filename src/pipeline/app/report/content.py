"""What a report says about a run, the same in every format. The same records and ledger give the same content.

The texts of tables and facts are sanitized, bounded and on one line; a format only has to escape them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path, PurePath
from typing import Any

from pipeline.app.findings.queries import FilteredItems, filtered_items
from pipeline.app.history import AttemptEnd, RunHistory, RunNote, VisitRecord, read_ledger
from pipeline.app.overview import RunOverview, error_kind, overview_of
from pipeline.app.workspace_diff import diff_run
from pipeline.engine.context import Key
from pipeline.engine.outcome import Status
from pipeline.engine.ports import Journal
from pipeline.findings.explanation import change_text
from pipeline.findings.gate import importance
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import Finding, Gate
from pipeline.findings.reviews import Review, review_of_run
from pipeline.findings.rounds import Round, rounds
from pipeline.findings.walk.report import report_data
from pipeline.findings.walk.session import triage_of_run
from pipeline.text import format_cost, format_count, format_duration, format_utc, one_line

FOLD_AFTER = 12  # steps; a longer path is folded away
MAX_ROWS = 200  # findings, reports, notes, and lines of a finding's history
_MAX_NAME = 60
_MAX_GOAL = 4000
_LONGEST_CYCLE = 8
_BAR_WIDTH = 24


@dataclass(frozen=True, slots=True)
class PathStep:
    """One attempt on the path of a run, or, without a stage, something that happened between visits."""

    text: str
    stage: str = ""
    visit: int = 0
    status: str = ""
    source: str = ""
    seconds: float | None = None  # None while it runs
    within: str = ""  # the parallel stage, for a branch
    target: str = ""
    is_retried: bool = False  # whether another attempt of the same visit followed


@dataclass(frozen=True, slots=True)
class ReviewSummary:
    """What the ledger knows about a run."""

    rounds: tuple[Round, ...] = ()
    review: Review | None = None  # of the target of the run
    lines: tuple[Line, ...] = ()  # of work about that target, what is open first, then the most important
    triage: Mapping[str, Any] = field(default_factory=dict)  # what was decided, and what became of the fixes
    hidden: FilteredItems = field(default_factory=FilteredItems)  # also what is only suspected


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything a report says about a run."""

    overview: RunOverview
    file: str  # of the workflow
    steps: tuple[PathStep, ...]
    seconds: float  # spent running, not waiting
    review: ReviewSummary
    changes: str  # how much the run changed; empty when git cannot tell


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows below a heading."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()  # the columns that hold numbers
    status: int | None = None  # the column that holds a status
    sums: bool = False  # whether the last row is about all the others


def build_report(history: RunHistory, review: ReviewSummary, changes: str, *, driven: bool) -> RunReport:
    """Everything a report says about a run; `driven` says whether a process drives it now."""
    state = history.state
    unfinished = "running" if driven and not state.status.final else "interrupted"
    return RunReport(
        overview=overview_of(history, review.review, driven=driven),
        file=history.created.file,
        steps=tuple(_steps(history.timeline, unfinished)),
        seconds=state.seconds,
        review=review,
        changes=changes,
    )


def describe_changes(history: RunHistory, environ: Mapping[str, str], store: Path) -> str:
    """How much a run changed, in git's words; empty when git cannot tell."""
    state = history.state
    diff = diff_run(state, history.created.head, environ, store)
    if diff.trouble:
        return ""
    summary = diff.stat.splitlines()[-1].strip() if diff.stat else "no files changed"
    return summary if Key.WORKSPACE_BASE in state.context else f"{summary}, from the start of the run until now"


def _steps(timeline: Sequence[VisitRecord | RunNote], unfinished: str) -> list[PathStep]:
    """Attempts and notes, each where it ended; unfinished visits are last."""
    steps = list[tuple[float, PathStep]]()
    for entry in timeline:
        if isinstance(entry, RunNote):
            steps.append((entry.at, PathStep(entry.text)))
            continue
        attempts = f"{entry.attempt} attempts. " if entry.attempt > 1 else ""
        for attempt in entry.attempts:
            if (outcome := attempt.outcome) is None or attempt.at is None:
                continue
            is_last = entry.ended is not None and attempt is entry.attempts[-1]
            retried = f" (retried after {format_duration(attempt.delay)})" if attempt.end is AttemptEnd.FAILED else ""
            step = PathStep(
                text=(attempts if is_last else f"attempt {attempt.number}: ") + outcome.reason + retried,
                stage=entry.stage,
                visit=entry.visit,
                status=outcome.status,
                source=error_kind(outcome.failure) if outcome.status is Status.ERROR else outcome.source,
                seconds=outcome.duration,
                within=entry.within,
                target=(entry.chosen.target or "") if entry.chosen and is_last else "",
                is_retried=not is_last,
            )
            steps.append((attempt.at, step))
        if entry.ended is None:
            steps.append((inf, PathStep(attempts, entry.stage, entry.visit, unfinished, within=entry.within)))
    return [step for _, step in sorted(steps, key=lambda pair: pair[0])]


def read_review(journal: Journal, run_id: str) -> ReviewSummary:
    """What the ledger behind a journal knows about a run."""
    ledger = read_ledger(journal)
    return ReviewSummary() if ledger is None else summarize_review(ledger, run_id)


def summarize_review(ledger: Ledger, run_id: str) -> ReviewSummary:
    """Return the rounds of a run, and every line of work about its target."""
    review, walk = review_of_run(ledger, run_id), triage_of_run(ledger, run_id)
    heads = dict.fromkeys(finding.line for finding in review.findings) if review else {}
    lines = sorted(map(ledger.line, heads), key=lambda line: (not line.state.active, importance(line.lead)))
    return ReviewSummary(
        rounds=tuple(rounds(ledger, run_id)),
        review=review,
        lines=tuple(lines),
        triage=report_data(walk) if walk else {},
        hidden=filtered_items(ledger, run_id),
    )


def title(report: RunReport) -> str:
    """The title of the page."""
    return one_line(report.overview.workflow, _MAX_NAME) or report.overview.run_id


def goal_lines(report: RunReport) -> list[str]:
    """The goal, line by line."""
    goal = report.overview.goal
    lines = [one_line(line, _MAX_GOAL) for line in goal[:_MAX_GOAL].strip().splitlines()]
    return [*lines, "…"] if len(goal) > _MAX_GOAL else lines


def facts(report: RunReport) -> Iterator[tuple[str, str]]:
    """The run at a glance."""
    run = report.overview
    yield "run", one_line(run.run_id, _MAX_NAME)
    yield "workflow", f"{title(report)} ({one_line(PurePath(report.file).name)})" if report.file else title(report)
    yield "outcome", f"{run.status}: {one_line(run.reason)}" if run.reason else run.status
    if run.until is not None:
        yield "quota resets", format_utc(run.until)
    if run.resume is not None:
        yield "resume with", one_line(" ".join(["awf resume", run.run_id, *run.resume]))
    yield "started", format_utc(run.began)
    yield "last record", format_utc(run.last)
    yield "time running", format_duration(report.seconds)
    if run.verdict:
        yield "verdict", one_line(run.verdict)
    yield "open lines of work", str(run.findings)
    yield "open reports", str(run.reports)
    yield "tokens", format_count(run.tokens) if run.tokens else "none recorded"
    yield "cost", format_cost(run.cost_usd) if run.cost_usd else "none recorded"
    if report.changes:
        yield "changes", one_line(report.changes)


def path_line(steps: Sequence[PathStep]) -> str:
    """The path on one line; what repeats is written once, with the number of times."""
    visits = [step for step in steps if step.stage and not step.within and not step.is_retried]
    names = [one_line(step.stage, _MAX_NAME) + (" (error)" if step.status == "error" else "") for step in visits]
    parts: list[str] = []
    while names:
        period, times = _find_cycle(names)
        words = " → ".join(names[:period])
        if times > 1:
            words = f"({words}) × {times}" if period > 1 else f"{words} × {times}"
        parts.append(words)
        names = names[period * times :]
    return " → ".join(parts)


def _find_cycle(names: Sequence[str]) -> tuple[int, int]:
    """The length of the cycle that the names begin with, and how often it repeats: the one that covers most names."""
    best = (1, 1)
    for period in range(1, min(_LONGEST_CYCLE, len(names) // 2) + 1):
        times = 1
        while names[times * period : (times + 1) * period] == names[:period]:
            times += 1
        if times > 1 and period * times > best[0] * best[1]:
            best = (period, times)
    return best


def path_table(steps: Sequence[PathStep]) -> ReportTable:
    """Every step, in order."""
    rows = (
        (
            one_line(step.stage, _MAX_NAME) + (f" (in {one_line(step.within, _MAX_NAME)})" if step.within else ""),
            str(step.visit) if step.stage else "",
            step.status,
            step.source,
            format_duration(step.seconds) if step.seconds is not None else "",
            one_line(step.target, _MAX_NAME),
            one_line(step.text),
        )
        for step in steps
    )
    head = ("stage", "visit", "outcome", "source", "time", "next", "reason")
    return ReportTable(head, tuple(rows), frozenset({1, 4}), 2)


def rounds_table(review: ReviewSummary) -> ReportTable:
    """Return the review rounds in numbers."""
    head = ("round", "open", "new", "resolved", "carried", "regressed")
    rows = []
    for one in review.rounds:
        groups = (one.outstanding, one.new, one.resolved, one.carried, one.regressed)
        rows.append((str(one.number), *(str(len(group)) for group in groups)))
    return ReportTable(head, tuple(rows), frozenset(range(len(head))))


def rounds_bars(review: ReviewSummary) -> list[str]:
    """What was open in each round, as a picture made of characters; nothing without rounds."""
    if not review.rounds:
        return []
    most = max(1, *(len(one.outstanding) for one in review.rounds))
    lines = ["open in each round"]
    for one in review.rounds:
        count = len(one.outstanding)
        shortest = 1 if count else 0
        bar = "█" * max(round(_BAR_WIDTH * count / most), shortest)
        lines.append(f"{one.number:>4}  {bar} {count}")
    return lines


def hidden_table(hidden: FilteredItems) -> ReportTable:
    """A row for each item that the gate filtered or demoted, and for what reviewers only suspect or miss."""
    rows = [
        (item.input_id, str(item.disposition), one_line(item.title), one_line(item.reason)) for _, item in hidden.items
    ]
    rows += [("", "risk", one_line(text), "") for text in hidden.residual_risks]
    rows += [("", "testing gap", one_line(text), "") for text in hidden.testing_gaps]
    return ReportTable(("item", "what", "title", "why"), tuple(rows))


def findings_table(lines: Sequence[Line]) -> ReportTable:
    """Return a row for each line of work, and below it one for each of its other findings."""
    rows = [row for line in lines for row in (_line_cells(line), *map(_member_cells, line.others))]
    head = ("no.", "severity", "state", "location", "finding", "reviewer")
    return ReportTable(head, tuple(rows), frozenset({0}), 2)


def _line_cells(line: Line) -> tuple[str, ...]:
    severity = f"{line.severity}, must" if line.gate is Gate.MUST else str(line.severity)
    return str(line.number), severity, *_finding_cells(line.lead)


def _member_cells(finding: Finding) -> tuple[str, ...]:
    return f"also {finding.number}", str(finding.severity), *_finding_cells(finding)


def _finding_cells(finding: Finding) -> tuple[str, ...]:
    place = one_line(finding.location.path_line) if finding.location else ""
    return finding.state.replace("_", " "), place, one_line(finding.title), one_line(finding.reviewer, _MAX_NAME)


def triage_table(triage: Mapping[str, Any]) -> ReportTable:
    """What was decided on each finding, and the ticket, the reason, or how the fix went."""
    rows = tuple(
        (f"{one['number']}", one["severity"], one_line(one["title"]), one["action"], one_line(one["note"]))
        for one in triage.get("findings", ())[:MAX_ROWS]
    )
    return ReportTable(("no.", "severity", "title", "action", "note"), rows, numbers=frozenset({0}))


def triage_lines(triage: Mapping[str, Any]) -> list[str]:
    """The counts and the verdict on what remains; nothing without a triage."""
    if not triage:
        return []
    return [f"{triage['summary']}.", f"Verdict: {triage['verdict']}."]


def finding_history(finding: Finding) -> list[str]:
    """Return who said what about a finding, and when."""
    lines = [change_text(change) for change in finding.history[:MAX_ROWS]]
    more = len(finding.history) - len(lines)
    return [*map(one_line, lines), *([f"and {more} more"] if more else [])]


def reports_table(overview: RunOverview) -> ReportTable:
    """What stages reported and nobody has resolved."""
    rows = ((str(one["stage"]), one["iteration"], one["reason"]) for one in overview.open_reports[-MAX_ROWS:])
    return _visit_texts("reported", rows)


def notes_table(overview: RunOverview) -> ReportTable:
    """What was restored in view files, newest last."""
    return _visit_texts("note", ((one["stage"], one["visit"], one["note"]) for one in overview.notes[-MAX_ROWS:]))


def _visit_texts(head: str, rows: Iterator[tuple[str, object, str]]) -> ReportTable:
    cells = tuple(
        (one_line(stage, _MAX_NAME), str(visit) if isinstance(visit, int) else "0", one_line(text))
        for stage, visit, text in rows
    )
    return ReportTable(("stage", "visit", head), cells, frozenset({1}))


def totals_table(report: RunReport) -> ReportTable:
    """What each stage took, and the whole run; nothing before the first stage."""
    run = report.overview
    head = ("stage", "visits", "last", "time", "tokens", "cost")
    if not run.stages:
        return ReportTable(head, ())
    rows = [
        (
            one_line(one.stage, _MAX_NAME),
            str(one.visits),
            one.status or "",
            *_usage_cells(one.seconds, one.tokens, one.cost_usd),
        )
        for one in run.stages
    ]
    # Branches run side by side, so the time of the run is less than the sum of theirs.
    visits = str(sum(one.visits for one in run.stages))
    rows.append(("the run", visits, "", *_usage_cells(report.seconds, run.tokens, run.cost_usd)))
    return ReportTable(head, tuple(rows), frozenset({1, 3, 4, 5}), 2, sums=True)


def _usage_cells(seconds: float, tokens: int, cost: float) -> tuple[str, str, str]:
    return format_duration(seconds), format_count(tokens) if tokens else "", format_cost(cost) if cost else ""
