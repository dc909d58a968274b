"""`awf findings list`, `diff` and `export`: several findings, as a table or in a format for a program."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pipeline import files
from pipeline.app.findings.lookup import find_pass
from pipeline.app.findings.queries import (
    ALL_STATES,
    DISMISSED_STATES,
    OPEN_STATES,
    FilteredItems,
    filtered_items,
    line_row,
    parse_states,
    select,
)
from pipeline.cli.findings.options import FindingsSource, build_filter, filter_options, source_options, stale_option
from pipeline.cli.options import as_json_option
from pipeline.cli.output import align_columns, print_json, print_text, terminal_width
from pipeline.cli.terminal import UNLIMITED, Style, sanitize
from pipeline.errors import AwfError
from pipeline.findings.explanation import (
    count_lines,
    dispute_text,
    line_size,
    location_text,
    member_line,
    possible_duplicates,
)
from pipeline.findings.formats import EXPORT_FORMATS, FORMATS
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import Finding, FindingId, FindingState, Gate, Severity
from pipeline.findings.places import Marks
from pipeline.findings.reviews import review_of_run
from pipeline.findings.rounds import compare_passes
from pipeline.findings.triage import StaleReason
from pipeline.text import ELLIPSIS, display_width, pad, plural, sanitize_line, truncate

COLUMNS = 80  # of a table when the output is not a terminal
_MIN_TITLE = 12  # columns
_PLACE_SHARE = 0.45  # of the columns that place and title share
_MAX_TEXT = 1000  # characters of a text that are looked at
_STATE = 4  # the column

Stale = Mapping[FindingId, Mapping[StaleReason, str]]
"""Why dismissals are stale, by finding."""


@click.command("list")
@filter_options
@stale_option
@click.option(
    "--filtered",
    is_flag=True,
    help="Instead of findings, what the gate filtered or demoted in the last reviews.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show at most N.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", *EXPORT_FORMATS]),
    default="table",
    show_default=True,
    help="Output format.",
)
@source_options
@as_json_option
def list_command(
    limit: int | None, form: str, source: FindingsSource, *, unused: bool, filtered: bool, as_json: bool, **given: Any
) -> None:
    """List findings, the most important first: by gate, severity, confidence and place.

    By default only what is open is listed, a claimed fix included; "--state all" lists all. Findings of several
    reviewers about one defect are one line of work, and one row: the worst open one is shown. Dismissed findings are
    listed with who dismissed them, why, and whether the dismissal is stale. With --run, only what the review of this
    run is about.
    """
    ledger, run = source.read(), source.run_id()
    if filtered:
        _print_filtered(filtered_items(ledger, run), limit, as_json=as_json or form == "json")
        return
    default = ALL_STATES if unused else OPEN_STATES
    states = parse_states(given["states"]) or default
    stale = source.stale_dismissals(ledger) if states & DISMISSED_STATES else {}
    wanted = build_filter(ledger, default, given, stale if unused else None)
    found = select(_lines_of(ledger, run), wanted)
    lines = source.current_lines(found[:limit], ledger)
    marks = Marks(source.repository.root)
    if as_json or form == "json":
        print_json([line_row(line) | _more_of_row(line, stale, marks) for line in lines])
    elif form == "table":
        _print_list(lines, stale, marks, ledger)
        if len(found) > len(lines):
            click.echo(f"{count_lines(len(found) - len(lines), 'more')} not shown.", err=True)
    else:
        print_text(FORMATS[form].write([finding for line in lines for finding in line.members], ledger))


def _lines_of(ledger: Ledger, run: str) -> Iterator[Line]:
    """Return the lines of work of a ledger, or those that the review of a run is about."""
    if not run:
        return ledger.lines()
    review = review_of_run(ledger, run)
    return map(ledger.line, dict.fromkeys(finding.line for finding in review.findings) if review else ())


@click.command("export")
@filter_options
@click.option("--format", "form", type=click.Choice(EXPORT_FORMATS), required=True, help="Output format.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write to a file.",
)
@source_options
def export_command(form: str, output: Path | None, source: FindingsSource, **given: Any) -> None:
    """Export findings in the format of another program.

    SARIF, Markdown and JSON contain all findings with their states; the other formats only those that are open.
    """
    ledger = source.read()
    # A format that cannot express states would bring closed findings back as open ones.
    default = ALL_STATES if FORMATS[form].all_states else OPEN_STATES
    lines = source.current_lines(select(ledger.lines(), build_filter(ledger, default, given)), ledger)
    text = FORMATS[form].write([finding for line in lines for finding in line.members], ledger)
    if output is None or str(output) == "-":
        print_text(text)
        return
    if output.exists() and not output.is_file():
        raise AwfError(f"{output} is not a regular file", help="leave out -o to write to standard output")
    with files.lock_directory(output.parent):
        files.write_file(output, text.encode(errors="replace"))


@click.command("diff")
@click.argument("before")
@click.argument("after")
@source_options
@as_json_option
def diff_command(before: str, after: str, source: FindingsSource, *, as_json: bool) -> None:
    """Show what became of findings from the pass BEFORE to the pass AFTER.

    A pass is named by its id, a prefix of it, or "latest".
    """
    ledger = source.read()
    first, last = find_pass(before, ledger), find_pass(after, ledger)
    lists = compare_passes(ledger, first, last)
    if as_json:
        ids = {word: [finding.id for finding in findings] for word, findings in lists.items()}
        print_json({"from": first.id, "to": last.id, **ids})
        return
    style, claimed = Style.of(sys.stdout), lists.pop("claimed")
    click.echo(", ".join(f"{len(findings)} {word}" for word, findings in lists.items()))
    for word, findings in lists.items():
        if findings:
            click.echo("\n".join((f"\n{style.name(word.capitalize())}", *table(_singly(findings)))))
    if claimed:
        click.echo(f"\n{plural(len(claimed), 'finding')} with a claimed fix that nobody has verified.")


def _singly(findings: Sequence[Finding]) -> list[Line]:
    """Return a line for each finding by itself, whatever line of work it is part of."""
    return [Line(finding.id, finding.number, (finding,)) for finding in findings]


def table(lines: Sequence[Line], *, states: bool = False) -> Iterator[str]:
    """Yield a header and one row per line of work. States are shown on request, or if any is not simply open."""
    style, columns = Style.of(sys.stdout), terminal_width()
    states = states or any(line.state is not FindingState.OPEN for line in lines)
    rows = [["#", "ID", "GATE", "SEVERITY", "STATE"]]
    for line in lines:
        gate = "must" if line.gate is Gate.MUST else ""
        rows.append([str(line.number), line.id, gate, line.severity.value, line.state.value])
    if not states:
        rows = [row[:_STATE] for row in rows]
    header, *rows = align_columns(rows, right=frozenset({0}))
    room = (COLUMNS if columns == UNLIMITED else max(columns, COLUMNS) - 1) - sum(len(cell) + 2 for cell in header)
    places = [_place(line, int(room * _PLACE_SHARE)) for line in lines]
    place_width = max(map(display_width, ["PLACE", *places]))
    title_width = max(room - place_width - 2, _MIN_TITLE)
    yield style.quiet("  ".join([*header, pad("PLACE", place_width), "TITLE"]))
    for line, cells, place in zip(lines, rows, places, strict=True):
        cells[3] = _paint(line.severity, cells[3], style)
        size = line_size(line)
        title = f"({size}) {line.title[:_MAX_TEXT]}" if size else line.title[:_MAX_TEXT]
        yield "  ".join([*cells, pad(place, place_width), truncate(sanitize_line(title), title_width)]).rstrip()


def _paint(severity: Severity, text: str, style: Style) -> str:
    if severity.rank > Severity.MEDIUM.rank:
        return text
    return style.warning(text) if severity is Severity.MEDIUM else style.error(text)


def _place(line: Line, width: int) -> str:
    """Return the end of a path, which says more than its beginning."""
    text = sanitize_line(location_text(line.lead)[-_MAX_TEXT:])
    return text if display_width(text) <= width else ELLIPSIS + truncate(text[::-1], width)[:-1][::-1].lstrip()


def _print_list(lines: Sequence[Line], stale: Stale, marks: Marks, ledger: Ledger) -> None:
    if not lines:
        click.echo("No findings." if ledger.passes else "No findings: nothing was reviewed yet.", err=True)
        return
    header, *rows = table(lines)
    text = [header]
    for line, row in zip(lines, rows, strict=True):
        text += [row, *(f"    {sanitize(detail)}" for detail in _details(line, stale, marks, ledger))]
    click.echo("\n".join(text))


def _details(line: Line, stale: Stale, marks: Marks, ledger: Ledger) -> Iterator[str]:
    """Yield marks, every member, who disputes it, what it may be the same as, and who dismissed it and why."""
    yield from marks.of_line(line)
    several = len(line.members) > 1
    for finding in line.members:
        about = f"#{finding.number}: " if several else ""
        if several:
            yield member_line(finding)
        notes = [finding.failures, dispute_text(finding), possible_duplicates(finding, ledger)]
        if finding.state.dismissed:
            notes += [str(finding.suppression or ""), *(f"stale: {why}" for why in stale.get(finding.id, {}).values())]
        yield from (f"{about}{note}" for note in notes if note)


def _print_filtered(found: FilteredItems, limit: int | None, *, as_json: bool) -> None:
    if as_json:
        print_json(found.as_json())
        return
    sections = {
        "Filtered or demoted": [
            f"{outcome.input_id}  {outcome.title}: {outcome.reason} ({passed.id})" for passed, outcome in found.items
        ],
        "Residual risks": list(found.residual_risks),
        "Testing gaps": list(found.testing_gaps),
    }
    if not any(sections.values()):
        click.echo("Nothing was filtered.", err=True)
    for title, lines in sections.items():
        if lines:
            shown = [f"  {sanitize_line(line[:_MAX_TEXT])}" for line in lines[:limit]]
            more = [f"  and {len(lines) - len(shown)} more"] if len(lines) > len(shown) else []
            click.echo("\n".join([f"{title} ({len(lines)})", *shown, *more]))


def _more_of_row(line: Line, stale: Stale, marks: Marks) -> dict[str, Any]:
    """Return what the JSON of a line has in addition: its marks, and the dismissals of its findings by id."""
    dismissed = {
        finding.id: {
            "suppression": finding.suppression.model_dump() if finding.suppression else None,
            "unused": [str(reason) for reason in stale.get(finding.id, {})],
        }
        for finding in line.members
        if finding.state.dismissed
    }
    return {"marks": list(marks.of_line(line)), "dismissed": dismissed}
