"""The screen at the end of a review: the verdict first, then what was found, what is missing, and what to do next."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click

from pipeline.app.findings.ledger import find_repository
from pipeline.app.findings.review_report import write_review_report
from pipeline.app.overview import resume_commands
from pipeline.app.review import ReviewResult, summarize_review
from pipeline.app.runs import RunResult
from pipeline.app.store import RunStore, load_state
from pipeline.cli.findings.options import print_problems, utc_now
from pipeline.cli.main import print_error
from pipeline.cli.options import current_settings
from pipeline.cli.output import terminal_width
from pipeline.cli.run import WatchOptions, show_triage
from pipeline.cli.store_options import StoreLocation
from pipeline.cli.terminal import UNLIMITED, Style, best_effort_output, sanitize
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError
from pipeline.findings.explanation import location_text
from pipeline.findings.ledger import LedgerStore
from pipeline.findings.model import Finding, FindingState, Severity
from pipeline.findings.review_options import ReviewOptions, review_options
from pipeline.findings.verdicts import Verdict
from pipeline.text import format_cost, format_count, format_duration, plural, truncate

_MAX_FINDINGS = 30  # on the screen


def show_review(store: RunStore, result: RunResult, where: StoreLocation, watch: WatchOptions) -> int:
    """Print what the review of a run found, and return the exit code of the command."""
    state = load_state(store.journal, result.run_id)
    options, ledger = review_options(state), LedgerStore(store.ledger(result.run_id)).ledger()
    review = summarize_review(state, ledger)
    code = review.exit_code(Verdict(options.fail_on.upper()))
    commands = list(_next_commands(review, result, where))
    report = _write_report(result.run_id, where) if options.report and not where.on and review.reviewed else ""
    about = {
        "report": report,
        "mode": options.mode,
        "base": options.base,
        "target": options.target,
        "fail_on": options.fail_on,
    }
    with best_effort_output():
        if watch.as_json:
            triage = {"triage": result.triage} if result.triage else {}
            document = review.as_json(ledger) | about | triage | {"next": commands, "exit_code": int(code)}
            # After the events of the run, each of which is a line, the result is the last line.
            click.echo(json.dumps(document, indent=None if watch.events else 2))
        else:
            click.echo("\n".join((*_lines(review, options, report, commands), *([""] if result.triage else []))))
            show_triage(result)
    return code


def _write_report(run_id: str, where: StoreLocation) -> str:
    """Write the report of a review; return its path. What is wrong with it is printed as notes."""
    settings = current_settings()
    repository = find_repository(None, Path.cwd(), os.environ, settings.record_writers)
    try:
        written = write_review_report(where.store, repository, utc_now(), settings.review_reports, run_id)
    except AwfError as error:  # the review itself is recorded, and its result is shown
        print_error(error)
        return ""
    print_problems(written.problems)
    return written.path


def _lines(review: ReviewResult, options: ReviewOptions, report: str, commands: Sequence[str]) -> Iterator[str]:
    style = Style.of(sys.stdout)
    paint = {Verdict.PASS: style.good, Verdict.WARN: style.warning}.get(review.verdict, style.error)
    severities = Counter(finding.severity for finding, _ in review.findings)
    counts = ", ".join(f"{severities[one]} {one}" for one in Severity if severities[one])
    missing = "; the review is incomplete" if review.gaps else ""
    yield f"{paint(review.verdict)}{f' ({counts})' if counts else ''}{missing}: {sanitize(options.target)}"
    shown = review.findings[:_MAX_FINDINGS]
    for severity, found in groupby(shown, key=lambda each: each[0].severity):
        yield f"\n{style.name(severity.upper())}"
        yield from (_finding_line(finding, since) for finding, since in found)
    if len(review.findings) > len(shown):
        yield f"\n{plural(len(review.findings) - len(shown), 'more finding')} not shown."
    if not (review.findings or review.gaps or review.rejections):
        yield "\nThis review left nothing open." if review.older else "\nNothing is left to deal with."
    notes = [f"Incomplete: {sanitize(gap)}" for gap in review.gaps]
    notes += (f"Rejected by {sanitize(one)}" for one in review.rejections)
    if review.older:
        remain = "finding of earlier reviews is" if review.older == 1 else "findings of earlier reviews are"
        notes.append(f"{review.older} {remain} still open: awf findings list")
    if not review.gaps and review.status is not RunStatus.SUCCESS and review.reason not in ("", review.status):
        notes.append(f"{review.status.capitalize()}: {sanitize(review.reason)}")
    if review.filtered:
        notes.append(f"{plural(review.filtered, 'item')} filtered or demoted: awf findings list --filtered")
    if report:
        notes.append(f"Report: {sanitize(report)}")
    used = [format_duration(review.seconds), *([f"{format_count(review.tokens)} tokens"] if review.tokens else [])]
    notes.append(
        ", ".join([f"Run {review.run_id}", *used, *([format_cost(review.cost_usd)] if review.cost_usd else [])])
    )
    yield "\n" + "\n".join(notes)
    if commands:
        yield "\nNext:"
        yield from (f"  {command}" for command in commands)


def _finding_line(finding: Finding, since: str) -> str:
    """One finding: where, what, who said so, and whether it is new."""
    columns = terminal_width()
    state = f", {finding.state.replace('_', ' ')}" if finding.state is not FindingState.OPEN else ""
    end = f"  [{', '.join(finding.sources)}; {since}{state}]"
    text = f"  #{finding.number}  {location_text(finding)}  {finding.title}"
    room = max(columns - len(end) - 1, 40) if columns != UNLIMITED else UNLIMITED
    return f"{truncate(sanitize(text), room)}{sanitize(end)}"


def _next_commands(review: ReviewResult, result: RunResult, where: StoreLocation) -> Iterator[str]:
    """The commands that make sense now, the most urgent first."""
    end, run = where.end, result.run_id
    if review.status is RunStatus.WAITING:
        yield f"awf answer {run}{end}"
    if review.status is not RunStatus.SUCCESS:
        yield f"{resume_commands(run, result.resume, None if where.on else result.until, time.time())[0]}{end}"
    if review.findings:
        yield f"awf findings show {review.findings[0][0].number}{end}"
        yield f"awf findings walk{end}"
    if any(finding.state is FindingState.FIX_CLAIMED for finding, _ in review.findings):
        yield f"awf review --mode verify{end}"
