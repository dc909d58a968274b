"""Findings in a table that fits a terminal of eighty columns, and a wider one where there is one."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pipeline import files
from pipeline.app.findings.explanation import location_text, possible_duplicates
from pipeline.app.findings.exports import EXPORTS, default_states
from pipeline.app.findings.ledger import find_pass
from pipeline.app.findings.queries import (
    DISMISSED_STATES,
    NEEDS_ATTENTION,
    PassDiff,
    compare_passes,
    finding_row,
    parse_states,
    select,
)
from pipeline.cli.findings.options import (
    build_filter,
    current_repository,
    filter_options,
    load_snapshot_at,
    repo_option,
    run_option,
    stale_dismissals_in,
    stale_option,
)
from pipeline.cli.options import as_json_option
from pipeline.cli.output import align_columns, print_json, print_text, terminal_width
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import UNLIMITED, Style, sanitize
from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, FindingState, Gate, Severity
from pipeline.findings.triage import StaleReason, describe_stale
from pipeline.text import ELLIPSIS, display_width, plural, sanitize_line, truncate

COLUMNS = 80  # where no terminal says how many there are
_LEAST = 12  # columns of a title
_PLACE = 0.45  # of what is left beside the other columns, at most
_TITLE_LENGTH = 1000  # characters of a title that are looked at


def table(findings: Sequence[Finding], *, states: bool = False) -> Iterator[str]:
    """A line for each finding, below a line of headings. The state is told where asked, or any is not simply open."""
    style = Style.of(sys.stdout)
    told = states or any(finding.state is not FindingState.OPEN for finding in findings)
    head = ("#", "ID", "GATE", "SEVERITY", *(("STATE",) if told else ()))
    rows = align_columns([head, *(_row(finding, told=told) for finding in findings)], frozenset({0}))
    left = _room() - sum(display_width(cell) + 2 for cell in rows[0])
    places = [_tail(sanitize_line(location_text(finding)[-_TITLE_LENGTH:]), int(left * _PLACE)) for finding in findings]
    wide = max(map(display_width, ["PLACE", *places]))
    yield style.quiet("  ".join([*rows[0], "PLACE".ljust(wide), "TITLE"]))
    for finding, row, place in zip(findings, rows[1:], places, strict=True):
        title = truncate(sanitize_line(finding.title[:_TITLE_LENGTH]), max(left - wide - 2, _LEAST))
        row[3] = _paint(style, finding, row[3])
        yield "  ".join([*row, place + " " * (wide - display_width(place)), title]).rstrip()


def _room() -> int:
    there = terminal_width()
    return COLUMNS if there == UNLIMITED else max(there, COLUMNS) - 1


def _row(finding: Finding, *, told: bool) -> list[str]:
    gate = "must" if finding.gate.value is Gate.MUST else ""
    state = [str(finding.state)] if told else []
    return [str(finding.number), finding.id, gate, str(finding.severity), *state]


def _tail(text: str, room: int) -> str:
    """The end of a path, which tells more than its beginning."""
    return text if display_width(text) <= room else ELLIPSIS + truncate(text[::-1], room)[:-1][::-1].lstrip()


def _paint(style: Style, finding: Finding, text: str) -> str:
    if finding.severity.rank <= Severity.HIGH.rank:
        return style.error(text)
    return style.warning(text) if finding.severity is Severity.MEDIUM else text


_FORMATS = ("table", "json", "sarif", "github", "rdjson", "markdown")
_Reasons = Mapping[FindingId, Sequence[StaleReason]]


@click.command("list")
@filter_options
@stale_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), default="table", show_default=True, help="Who is to read it."
)
@store_location_options
@run_option
@repo_option
@as_json_option
def list_command(
    limit: int | None,
    form: str,
    where: StoreLocation,
    run: str,
    repo: Path | None,
    *,
    unused: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """List findings: what must be fixed first, then by severity, confidence and place.

    Without --state it is what is open, and what is said to be fixed and was not verified; "--state all" is everything.
    What was dismissed is told with who did so, why and until when, and whether that is of any use: "--unused" has those
    where it is not.
    """
    ledger = load_snapshot_at(where, run, repo).ledger
    usual = DISMISSED_STATES if unused else NEEDS_ATTENTION
    states = parse_states(given["states"]) or usual
    reasons = stale_dismissals_in(ledger, current_repository(repo)) if states & DISMISSED_STATES else {}
    found = select(ledger, build_filter(ledger, usual, given, reasons if unused else None))
    _say(found[:limit], len(found), reasons, ledger, "json" if as_json else form)


def _say(shown: list[Finding], count: int, reasons: _Reasons, ledger: Ledger, form: str) -> None:
    if form == "json":
        print_json([finding_row(finding) | _dismissal(finding, reasons) for finding in shown])
    elif form == "table":
        _print(shown, count, reasons, ledger)
    else:
        print_text(EXPORTS[form](shown, ledger))


def _print(shown: list[Finding], count: int, reasons: _Reasons, ledger: Ledger) -> None:
    if not shown:
        click.echo("No findings.", err=True)
        return
    head, *lines = table(shown)
    click.echo(head)
    for finding, line in zip(shown, lines, strict=True):
        click.echo("\n".join([line, *_details(finding, reasons, ledger)]))
    if count > len(shown):
        click.echo(f"{plural(count - len(shown), 'more finding')} not shown.", err=True)


def _dismissal(finding: Finding, reasons: _Reasons) -> dict[str, Any]:
    """What a program is told of a dismissal; nothing of a finding that is none's."""
    if not finding.state.dismissed:
        return {}
    held = finding.suppression.model_dump() if finding.suppression else None
    return {"suppression": held, "unused": [str(reason) for reason in reasons.get(finding.id, ())]}


def _details(finding: Finding, reasons: _Reasons, ledger: Ledger) -> Iterator[str]:
    """What a finding may be the same as; who dismissed it, why and until when, and why that is of no use."""
    if same := possible_duplicates(finding, ledger):
        yield f"    {same}"
    if not finding.state.dismissed:
        return
    if held := finding.suppression:
        until = f" until {held.expires}" if held.expires else ""
        yield f"    by {sanitize(held.by or 'somebody')}{until}: {sanitize(held.reason or 'no reason given')}"
    yield from (f"    unused: {describe_stale(finding, reason)}" for reason in reasons.get(finding.id, ()))


@click.command("export")
@filter_options
@click.option("--format", "form", type=click.Choice(list(EXPORTS)), required=True, help="Who is to read it.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write to a file.",
)
@store_location_options
@run_option
@repo_option
def export_command(
    form: str, output: Path | None, where: StoreLocation, run: str, repo: Path | None, **given: Any
) -> None:
    """Write findings in the format of another program.

    SARIF, Markdown and JSON have all findings, with what became of them; the other formats what is outstanding.
    """
    ledger = load_snapshot_at(where, run, repo).ledger
    text = EXPORTS[form](select(ledger, build_filter(ledger, default_states(form), given)), ledger)
    if output is None or str(output) == "-":
        print_text(text)
    else:
        _write(output, text)


def _write(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():
        raise AwfError(f"{path} is no file that could be written anew", help="leave -o out to write to the output")
    with files.lock_directory(path.parent):
        files.write_file(path, text.encode(errors="replace"))


@click.command("diff")
@click.argument("before")
@click.argument("after")
@store_location_options
@run_option
@repo_option
@as_json_option
def diff_command(before: str, after: str, where: StoreLocation, run: str, repo: Path | None, *, as_json: bool) -> None:
    """Tell what became of findings from the pass BEFORE to the pass AFTER.

    A pass is named by its id, the beginning of one, or "latest".
    """
    ledger = load_snapshot_at(where, run, repo).ledger
    found = compare_passes(ledger, find_pass(before, ledger), find_pass(after, ledger))
    if as_json:
        print_json(found.as_json())
    else:
        _print_diff(found)


def _print_diff(found: PassDiff) -> None:
    style = Style.of(sys.stdout)
    lists = found.lists()
    click.echo(", ".join(f"{len(findings)} {word}" for word, findings in lists.items()))
    for word, findings in lists.items():
        if findings:
            click.echo("\n".join((f"\n{style.name(word.capitalize())}", *table(findings))))
    if found.claimed:
        click.echo(f"\n{len(found.claimed)} of the resolved are only claimed; nobody has verified them.")
