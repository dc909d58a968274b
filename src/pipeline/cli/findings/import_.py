"""`awf findings import`: what reviewers and tools returned, taken in as one pass."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click

from pipeline.app.findings.intake import AUTO, ImportResult, Mode, decode_files, import_reports, read_files
from pipeline.cli.findings.lists import table
from pipeline.cli.findings.options import current_repository, repo_option, stale_note, utc_now
from pipeline.cli.options import as_json_option, store_option
from pipeline.cli.output import print_json
from pipeline.cli.terminal import Style, sanitize
from pipeline.errors import ExitCode
from pipeline.findings.formats import IMPORT_FORMATS
from pipeline.findings.model import Lens
from pipeline.text import plural

_SHOWN = 10  # of each kind; the rest is counted


@click.command("import")
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice([AUTO, *IMPORT_FORMATS]),
    default=AUTO,
    show_default=True,
    help="What the files are; by default each is recognised by its content.",
)
@click.option("--reviewer", default="", metavar="NAME", help="Who says so; by default what a file tells, or its name.")
@click.option("--lens", type=click.Choice([str(lens) for lens in Lens]), help="Which kind of assessment it is.")
@click.option("--task", default="", metavar="TASK", help="What is being worked on.")
@click.option(
    "--mode",
    type=click.Choice(["full", "quick", "verify"]),
    default="full",
    show_default=True,
    help="How much was looked at; verify looks again at what the last full pass found.",
)
@store_option
@repo_option
@as_json_option
def command(
    files: tuple[str, ...],
    form: str,
    reviewer: str,
    lens: str | None,
    task: str,
    mode: str,
    store: Path,
    repo: Path | None,
    *,
    as_json: bool,
) -> int:
    """Take in what reviewers and tools returned. All FILES together are one pass; "-" is standard input.

    A file that cannot be used makes the pass incomplete: it is recorded, and the exit code is 1.
    """
    if stage := os.environ.get("AWF_STAGE"):
        reviewer = f"stage:{stage}"  # of its own: it takes back nothing that others reported
    gc.disable()  # nothing here goes round in a circle, and looking for it takes a third of the time
    repository = current_repository(repo)
    through = Lens(lens) if lens else None
    done = import_reports(
        decode_files(
            read_files(files, sys.stdin.buffer), repository.root, format=form, reviewer=reviewer, lens=through
        ),
        store,
        repository,
        utc_now(),
        task=task,
        mode=cast("Mode", mode),
    )
    if as_json:
        print_json(done.as_json())
    else:
        click.echo("\n".join(_report_lines(done, Style.of(sys.stdout))))
    return ExitCode.SUCCESS if done.standing.complete else ExitCode.RUN_FAILED


def _report_lines(done: ImportResult, style: Style) -> Iterator[str]:
    inputs, reviewers = len(done.passed.entries), len(done.passed.coverage.reviewers)
    yield f"Pass {style.name(done.passed.id)}: {plural(inputs, 'item')} from {plural(reviewers, 'reviewer')}"
    yield from filter(None, (_fates(done), _changes(done)))
    yield from _rejected(done, style)
    yield from _changed("New", done.changes.new, done)
    yield from _changed("Reopened", done.changes.reopened, done)
    yield from (f"{style.error('incomplete')}: {sanitize(gap)}" for gap in done.standing.gaps)
    yield from (f"{style.warning('note')}: {sanitize(problem)}" for problem in done.problems)
    if done.unused:
        yield f"{style.warning('note')}: {stale_note(len(done.unused))}"
    yield f"Verdict: {sanitize(done.standing.told())}"
    if done.suggestion:
        yield done.suggestion


def _fates(done: ImportResult) -> str:
    told = ", ".join(f"{number} {fate}" for fate, number in done.dispositions.items() if number)
    return f"  items:    {told}" if told else ""


def _changes(done: ImportResult) -> str:
    lists = {
        name: getattr(done.changes, name) for name in ("new", "unchanged", "updated", "moved", "reopened", "absent")
    }
    told = ", ".join(f"{len(ids)} {name}" for name, ids in lists.items() if ids)
    return f"  findings: {told}" if told else ""


def _rejected(done: ImportResult, style: Style) -> Iterator[str]:
    refused = done.refused()
    for entry in refused[:_SHOWN]:
        yield f"{style.warning('rejected')}: {sanitize(entry.input_id)}: {sanitize(entry.reason)}"
    if len(refused) > _SHOWN:
        yield f"and {len(refused) - _SHOWN} more were rejected; --json has the counts, the pass has the reasons"


def _changed(word: str, ids: tuple[str, ...], done: ImportResult) -> Iterator[str]:
    if not ids:
        return
    yield f"{word}:"
    yield from table([done.findings[id] for id in ids[:_SHOWN]])
    if len(ids) > _SHOWN:
        yield f"and {len(ids) - _SHOWN} more"
