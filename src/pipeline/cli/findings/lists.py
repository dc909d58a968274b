"""`awf findings list`, `diff` and `export`: several findings, as a table or in a format for a program."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pipeline import files
from pipeline.app.findings.ledger import find_pass
from pipeline.app.findings.queries import (
    ALL_STATES,
    DISMISSED_STATES,
    NEEDS_ATTENTION,
    FilteredItems,
    filtered_items,
    finding_row,
    parse_states,
    select,
)
from pipeline.cli.findings.options import FindingsSource, build_filter, filter_options, source_options, stale_option
from pipeline.cli.options import as_json_option
from pipeline.cli.output import align_columns, print_json, print_text, terminal_width
from pipeline.cli.terminal import UNLIMITED, Style, sanitize
from pipeline.errors import AwfError
from pipeline.findings.explanation import cluster_size, location_text, possible_duplicates
from pipeline.findings.formats import EXPORT_FORMATS, FORMATS
from pipeline.findings.ledger import Ledger, runs_of
from pipeline.findings.model import Finding, FindingId, FindingState, Gate, Severity
from pipeline.findings.rounds import compare_passes
from pipeline.findings.triage import StaleReason
from pipeline.text import ELLIPSIS, display_width, pad, plural, sanitize_line, truncate

COLUMNS = 80  # of a table when the output is not a terminal
_MIN_TITLE = 12  # columns
_PLACE_SHARE = 0.45  # of the columns that place and title share
_MAX_TEXT = 1000  # characters of a text that are looked at


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

    By default only findings that are open, or claimed to be fixed and not verified; "--state all" lists all. A cluster
    of findings about one defect is one line. Dismissed findings are listed with who dismissed them, why, and whether
    the dismissal is stale. With --run, only findings that this run reported.
    """
    ledger, run = source.read(), source.run_id()
    if filtered:
        _print_filtered(filtered_items(ledger, run), limit, as_json=as_json or form == "json")
        return
    default = DISMISSED_STATES if unused else NEEDS_ATTENTION
    states = parse_states(given["states"]) or default
    stale = source.stale_dismissals(ledger) if states & DISMISSED_STATES else {}
    found = select(ledger, build_filter(ledger, default, given, stale if unused else None))
    if run:
        found = [one for one in found if run in runs_of(ledger, one)]
    shown = found[:limit]
    if as_json or form == "json":
        print_json([finding_row(one, ledger) | _dismissal(one, stale.get(one.id, ())) for one in shown])
    elif form == "table":
        _print_list(shown, stale, ledger)
        if len(found) > len(shown):
            click.echo(f"{plural(len(found) - len(shown), 'more finding')} not shown.", err=True)
    else:
        print_text(FORMATS[form].write(shown, ledger))


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

    SARIF, Markdown and JSON contain all findings with their states; the other formats only those that need attention.
    """
    ledger = source.read()
    # A format that cannot express states would bring closed findings back as open ones.
    default = ALL_STATES if FORMATS[form].all_states else NEEDS_ATTENTION
    text = FORMATS[form].write(select(ledger, build_filter(ledger, default, given)), ledger)
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
            click.echo("\n".join((f"\n{style.name(word.capitalize())}", *table(findings, ledger))))
    if claimed:
        click.echo(f"\n{len(claimed)} of the resolved findings are claimed to be fixed, but not verified.")


def table(findings: Sequence[Finding], ledger: Ledger | None = None, *, states: bool = False) -> Iterator[str]:
    """A header and one line per finding. States are shown on request, or if any finding is not simply open."""
    style, columns = Style.of(sys.stdout), terminal_width()
    states = states or any(finding.state is not FindingState.OPEN for finding in findings)
    rows = [["#", "ID", "GATE", "SEVERITY", "STATE"]]
    for one in findings:
        gate = "must" if one.gate.value is Gate.MUST else ""
        rows.append([str(one.number), one.id, gate, one.severity.value, one.state.value])
    header, *rows = align_columns([row if states else row[:-1] for row in rows], right=frozenset({0}))
    room = (COLUMNS if columns == UNLIMITED else max(columns, COLUMNS) - 1) - sum(len(cell) + 2 for cell in header)
    places = [_last_part(sanitize_line(location_text(one)[-_MAX_TEXT:]), int(room * _PLACE_SHARE)) for one in findings]
    place_width = max(map(display_width, ["PLACE", *places]))
    title_width = max(room - place_width - 2, _MIN_TITLE)
    yield style.quiet("  ".join([*header, pad("PLACE", place_width), "TITLE"]))
    for finding, cells, place in zip(findings, rows, places, strict=True):
        if finding.severity.rank <= Severity.MEDIUM.rank:
            paint = style.warning if finding.severity is Severity.MEDIUM else style.error
            cells[3] = paint(cells[3])
        size = cluster_size(finding, ledger) if ledger else ""
        title = f"({size}) {finding.title[:_MAX_TEXT]}" if size else finding.title[:_MAX_TEXT]
        yield "  ".join([*cells, pad(place, place_width), truncate(sanitize_line(title), title_width)]).rstrip()


def _last_part(text: str, width: int) -> str:
    """The end of a path, which says more than its beginning."""
    return text if display_width(text) <= width else ELLIPSIS + truncate(text[::-1], width)[:-1][::-1].lstrip()


def _print_list(shown: Sequence[Finding], stale: Mapping[FindingId, Mapping[StaleReason, str]], ledger: Ledger) -> None:
    if not shown:
        click.echo("No findings." if ledger.passes else "No findings: nothing was reviewed yet.", err=True)
        return
    header, *lines = table(shown, ledger)
    text = [header]
    for finding, line in zip(shown, lines, strict=True):
        text += [line, *_details(finding, stale.get(finding.id, {}), ledger)]
    click.echo("\n".join(text))


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


def _details(finding: Finding, stale: Mapping[StaleReason, str], ledger: Ledger) -> Iterator[str]:
    """What a finding may be the same as; who dismissed it, why and until when, and why that is stale."""
    if finding.failures:
        yield f"    {finding.failures}"
    if finding.may_be and (duplicates := possible_duplicates(finding, ledger)):
        yield f"    {duplicates}"
    if not finding.state.dismissed:
        return
    if finding.suppression:
        yield f"    {sanitize(str(finding.suppression))}"
    yield from (f"    stale: {reason}" for reason in stale.values())


def _dismissal(finding: Finding, stale: Iterable[StaleReason]) -> dict[str, Any]:
    """What the JSON of a dismissed finding has in addition."""
    if not finding.state.dismissed:
        return {}
    suppression = finding.suppression.model_dump() if finding.suppression else None
    return {"suppression": suppression, "unused": [str(reason) for reason in stale]}
