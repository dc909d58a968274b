"""The screen at the end of a review: the verdict first, then what was found, what is missing, and what to do next."""

import json
import os
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import click

from pipeline.app.findings.ledger import find_repository
from pipeline.app.findings.queries import line_row, verify_command
from pipeline.app.findings.review_report import write_review_report
from pipeline.app.overview import resume_commands
from pipeline.app.review import ChangedFiles, ReviewResult, changed_files, summarize_review
from pipeline.app.runs import RunResult
from pipeline.app.store import RunStore, load_state
from pipeline.cli.findings.options import print_problems, utc_now
from pipeline.cli.main import print_error
from pipeline.cli.options import current_settings
from pipeline.cli.output import terminal_width
from pipeline.cli.run import WatchOptions, show_triage
from pipeline.cli.store_options import StoreLocation
from pipeline.cli.terminal import Style, best_effort_output, sanitize
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError
from pipeline.findings.explanation import count_lines, location_text, member_line
from pipeline.findings.ledger import LedgerStore, passes_of
from pipeline.findings.lines import Line
from pipeline.findings.model import FindingState, What
from pipeline.findings.places import follow_renames
from pipeline.findings.review_options import ReviewOptions, review_options
from pipeline.findings.untaken import untaken
from pipeline.findings.verdicts import Verdict
from pipeline.language.model import TriageStage
from pipeline.text import format_cost, format_count, format_duration, listing, plural, truncate

_MAX_LINES = 30  # of work on the screen
_MAX_FILES = 10  # that are named


def show_review(store: RunStore, result: RunResult, where: StoreLocation, watch: WatchOptions) -> int:
    """Print what the review of a run found, and return the exit code of the command."""
    state = load_state(store.journal, result.run_id)
    journal = store.ledger(result.run_id)
    options, ledger = review_options(state), LedgerStore(journal, untaken(journal)).ledger()
    review = summarize_review(state, ledger)
    lines = review.review.open if where.on else follow_renames(review.review.open, ledger, state.directory, os.environ)
    code = review.exit_code(Verdict(options.fail_on.upper()))
    commands = list(_next_commands(review, result, where, triage=isinstance(state.stage, TriageStage)))
    changed = None if where.on else changed_files(state, ledger, os.environ, where.store.absolute())
    looked = options.report and not where.on and bool(passes_of(ledger, result.run_id))
    report = _write_report(result.run_id, where) if looked else ""
    with best_effort_output():
        if watch.as_json:
            document = review.as_json() | {
                "open": list(map(line_row, lines)),
                "report": report,
                "mode": options.mode,
                "base": options.base,
                "target": options.target,
                "fail_on": options.fail_on,
            }
            if result.triage:
                document["triage"] = result.triage
            if changed:
                document["changed"] = asdict(changed)
            document |= {"next": commands, "exit_code": int(code)}
            # After the events of the run, each of which is a line, the result is the last line.
            click.echo(json.dumps(document, indent=None if watch.events else 2))
            return code
        notes = list(_notes(review, report))
        if changed:
            notes.append(_changed(changed))
        click.echo("\n".join(_lines(review, lines, options, [*notes, _used(review)], commands)))
        if result.triage:
            click.echo()
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


def _lines(
    result: ReviewResult, lines: Sequence[Line], options: ReviewOptions, notes: Sequence[str], commands: Sequence[str]
) -> Iterator[str]:
    style, review = Style.of(sys.stdout), result.review
    paint = {Verdict.PASS: style.good, Verdict.WARN: style.warning}.get(review.verdict, style.error)
    yield f"{paint(sanitize(review.headline))}: {sanitize(options.target)}"
    passes = {passed.id for passed in passes_of(review.ledger, result.run_id)}
    shown = lines[:_MAX_LINES]
    for severity, group in groupby(sorted(shown, key=_by_severity), key=lambda line: line.severity):
        yield f"\n{style.name(severity.upper())}"
        for line in group:
            yield _line_text(line, passes)
            yield from (f"      also {sanitize(member_line(member))}" for member in line.others)
    if len(lines) > len(shown):
        yield f"\n{count_lines(len(lines) - len(shown), 'more')} not shown."
    if not lines and not result.gaps:
        yield "\nNothing is open about it."
    yield "\n" + "\n".join(map(sanitize, notes))
    if commands:
        yield "\nNext:"
        yield from (f"  {command}" for command in commands)


def _by_severity(line: Line) -> int:
    return line.severity.rank


def _notes(result: ReviewResult, report: str) -> Iterator[str]:
    """Yield what is missing and open elsewhere, and where the report is."""
    review = result.review
    for gap in result.gaps:
        yield f"Incomplete: {gap}"
    if result.waiting:
        yield f"Not in the ledger yet: what {', '.join(result.waiting)} found; awf resume {result.run_id} takes it in"
    yield from review.unruled
    if review.unshown:
        yield review.unshown
    if review.changed:
        yield "Files changed while the reviewers looked: awf review"
    elif review.unseen and not result.gaps:
        yield f"Ships nothing yet: {review.missing_looks}: awf review"
    if review.elsewhere:
        yield f"Elsewhere: {count_lines(len(review.elsewhere))}: awf findings list"
    stopped = result.status is not RunStatus.SUCCESS and result.reason not in ("", result.status)
    if stopped and not result.gaps:
        yield f"{result.status.capitalize()}: {result.reason}"
    if review.filtered:
        yield f"{plural(review.filtered, 'item')} filtered or demoted: awf findings list --filtered"
    if report:
        yield f"Report: {report}"


def _changed(files: ChangedFiles) -> str:
    """Return what is in the working tree after fixes were made."""
    if files.problem:
        return f"Git cannot tell what changed in the working tree: {files.problem}"
    if not files.names:
        return "Nothing changed in the working tree since the review began"
    committed = [name for name in files.names if name not in files.uncommitted]
    parts = list[str]()
    if files.uncommitted:
        parts.append(f"{listing(files.uncommitted, _MAX_FILES)} (not committed)")
    if committed:
        parts.append(f"{listing(committed, _MAX_FILES)} (committed)")
    return f"Changed in the working tree since the review began: {'; '.join(parts)}"


def _used(result: ReviewResult) -> str:
    """Return what the run used, in one line."""
    used = [f"Run {result.run_id}", format_duration(result.seconds)]
    if result.tokens:
        used.append(f"{format_count(result.tokens)} tokens")
    if result.cost_usd:
        used.append(format_cost(result.cost_usd))
    return ", ".join(used)


def _line_text(line: Line, passes: Collection[str]) -> str:
    """Return a line of work: where, what, who said so, and whether it is new."""
    state = "" if line.state is FindingState.OPEN else f", {line.state.replace('_', ' ')}"
    end = f"  [{', '.join(line.reviewers)}; {_since(line, passes)}{state}]"
    text = f"  #{line.number}  {location_text(line.lead)}  {line.title}"
    return f"{truncate(sanitize(text), max(terminal_width() - len(end) - 1, 40))}{sanitize(end)}"


def _since(line: Line, passes: Collection[str]) -> str:
    """Return whether a line of work is new in some passes, was known before, or was fixed and is back."""
    if line.state is FindingState.REOPENED:
        return "back again"
    raised = (change for finding in line.members for change in finding.history if change.what is What.RAISED)
    return "new" if all(change.pass_id in passes for change in raised) else "known"


def _next_commands(review: ReviewResult, result: RunResult, where: StoreLocation, *, triage: bool) -> Iterator[str]:
    """Yield the commands that make sense now, the most urgent first. A triage is not answered by one option."""
    end, run, open_lines = where.end, result.run_id, review.review.open
    if review.status is RunStatus.WAITING and not triage:
        yield f"awf answer {run}{end}"
    if review.status is not RunStatus.SUCCESS:
        yield f"{resume_commands(run, result.resume, None if where.on else result.until, time.time())[0]}{end}"
    if open_lines:
        yield f"awf findings show {open_lines[0].number}{end}"
    if any(line.state.active for line in open_lines):
        yield f"awf findings walk{end}"
    if review.review.claimed:
        yield f"{verify_command(review.review)}{end}"
