"""`awf findings import`: one pass from the reports of reviewers and tools."""

import gc
import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import click

from pipeline.app.findings.intake import AUTO, CALLER, STAGE, ImportResult, decode_files, import_reports, read_files
from pipeline.app.findings.review_report import write_review_report
from pipeline.cli.findings.lists import table
from pipeline.cli.findings.options import FindingsSource, local_source_options, stale_note, utc_now
from pipeline.cli.options import as_json_option, settings_or_defaults
from pipeline.cli.output import print_json
from pipeline.cli.terminal import Style, sanitize
from pipeline.errors import ExitCode
from pipeline.findings.explanation import count_lines
from pipeline.findings.formats import IMPORT_FORMATS
from pipeline.findings.review_options import ReviewMode, ReviewOptions
from pipeline.language.model import Lens
from pipeline.text import plural

SCOPES = ("changeset", "package", "team", "file")
_MAX_SHOWN = 10  # of each kind; the rest are counted


@click.command("import")
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice([AUTO, *IMPORT_FORMATS]),
    default=AUTO,
    show_default=True,
    help="Format of the files; auto recognises each by its content.",
)
@click.option("--reviewer", default="", metavar="NAME", help="Who reports. [default: as the file says, or its name]")
@click.option("--lens", type=click.Choice([str(lens) for lens in Lens]), help="The kind of assessment.")
@click.option("--task", default="", metavar="TASK", help="The task that is being worked on.")
@click.option(
    "--mode",
    type=click.Choice(["full", "quick", "verify"]),
    default="full",
    show_default=True,
    help="How much was reviewed; verify rules on the fixes that were claimed since the last full review.",
)
@click.option("--base", default="", metavar="COMMIT", help="The commit that the reviewed change is compared with.")
@click.option("--target", default="", metavar="TEXT", help="What was reviewed. [default: the branch]")
@click.option("--scope", type=click.Choice(SCOPES), default=SCOPES[0], show_default=True, help="How far it reaches.")
@click.option(
    "--report/--no-report",
    default=False,
    help="Write the review as Markdown into the directory of the setting review.reports. [default: --no-report]",
)
@click.option(
    "--complete/--partial",
    default=None,
    help="What tools no longer list is fixed: everywhere, or only in files that they name. [default: in changed files]",
)
@local_source_options
@as_json_option
def command(
    files: tuple[str, ...],
    form: str,
    reviewer: str,
    lens: str | None,
    task: str,
    mode: ReviewMode,
    base: str,
    target: str,
    scope: str,
    source: FindingsSource,
    *,
    report: bool,
    complete: bool | None,
    as_json: bool,
) -> int:
    """Import the reports of reviewers and tools. All FILES together are one pass; "-" is standard input.

    What a tool no longer lists is fixed, if its file has changed or the report is --complete. A test that was not run
    stays as it is, and so does everything that a reviewer leaves out.

    A file that cannot be read makes the pass incomplete: it is recorded, and the exit code is 1.
    """
    if stage := os.environ.get("AWF_STAGE"):
        reviewer = f"{STAGE}{stage}"  # a name of its own, so that it withdraws nothing that others reported
    gc.disable()  # reports have no cycles; looking for them takes a third of the time of a large import
    reports = decode_files(
        read_files(files, sys.stdin.buffer),
        source.repository.root,
        format=form,
        reviewer=reviewer,
        lens=Lens(lens) if lens else None,
        complete=complete,
    )
    options = ReviewOptions(mode, base, target or (f"{base}..HEAD" if base else ""), scope, task=task, caller=CALLER)
    now = utc_now()
    result = import_reports(reports, source.store, source.repository, now, options)
    if report:
        directory = settings_or_defaults().review_reports
        result = replace(result, report=write_review_report(source.store, source.repository, now, directory))
    if as_json:
        print_json(result.as_json())
    else:
        click.echo("\n".join(_summary_lines(result, Style.of(sys.stdout))))
    return ExitCode.SUCCESS if result.review.complete else ExitCode.RUN_FAILED


def _summary_lines(result: ImportResult, style: Style) -> Iterator[str]:
    passed, review = result.passed, result.review
    items, reviewers = plural(len(passed.entries), "item"), plural(len(passed.coverage.looks), "reviewer")
    yield f"Pass {style.name(passed.id)}: {items} from {reviewers}"
    dispositions = ", ".join(f"{number} {outcome}" for outcome, number in result.dispositions.items() if number)
    if dispositions:
        yield f"  items:    {dispositions}"
    changes = ", ".join(f"{len(ids)} {name}" for name, ids in result.changes.items() if ids)
    if changes:
        yield f"  findings: {changes}"
    for outcome in result.rejected[:_MAX_SHOWN]:
        yield f"{style.warning('rejected')}: {sanitize(outcome.input_id)}: {sanitize(outcome.reason)}"
    if len(result.rejected) > _MAX_SHOWN:
        yield f"and {len(result.rejected) - _MAX_SHOWN} more rejected; awf findings list --state uncertain"
    yield from _changed_lines("New", result)
    yield from _changed_lines("Reopened", result)
    hidden = result.dispositions["filtered"] + result.dispositions["demoted"]
    if hidden:
        yield f"{hidden} filtered or demoted: awf findings list --filtered"
    yield from (f"{style.error('incomplete')}: {sanitize(gap)}" for gap in review.gaps)
    yield from (f"{style.warning('note')}: {sanitize(text)}" for text in (*review.unruled, *result.problems))
    if result.stale:
        yield f"{style.warning('note')}: {stale_note(len(result.stale))}"
    yield f"Verdict: {sanitize(review.headline)}"
    if review.elsewhere:
        yield f"Elsewhere: {count_lines(len(review.elsewhere))}: awf findings list"
    if result.report and result.report.path:
        yield f"Report: {sanitize(result.report.path)}"
    if result.suggestion:
        yield result.suggestion


def _changed_lines(word: str, result: ImportResult) -> Iterator[str]:
    """Yield the lines of work with findings that the pass changed like this."""
    ledger = result.review.ledger
    lines = [ledger.line(id) for id in dict.fromkeys(ledger.findings[id].line for id in result.changes[word.lower()])]
    if not lines:
        return
    yield f"{word}:"
    yield from table(lines[:_MAX_SHOWN])
    if len(lines) > _MAX_SHOWN:
        yield f"and {len(lines) - _MAX_SHOWN} more"
