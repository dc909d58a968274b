"""`awf findings list`: findings in a table, or in a format for a program."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pipeline.app.findings.exporting import EXPORTS
from pipeline.app.findings.filters import DISMISSED, OUTSTANDING, select, states_of
from pipeline.app.findings.records import row
from pipeline.app.findings.story import may_be
from pipeline.cli.findings.asked import (
    filter_of,
    filter_options,
    here,
    look_at,
    repo_option,
    run_option,
    unused_in,
    unused_option,
)
from pipeline.cli.findings.table import table
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json, print_text
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import sanitize
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.unused import Unused, told
from pipeline.text import plural

_FORMATS = ("table", "json", "sarif", "github", "rdjson", "markdown")
_Reasons = Mapping[FindingId, Sequence[Unused]]


@click.command("list")
@filter_options
@unused_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), default="table", show_default=True, help="Who is to read it."
)
@store_location_options
@run_option
@repo_option
@as_json_option
def command(
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
    ledger = look_at(where, run, repo).ledger
    usual = DISMISSED if unused else OUTSTANDING
    states = states_of(given["states"]) or usual
    reasons = unused_in(ledger, here(repo)) if states & DISMISSED else {}
    found = select(ledger, filter_of(ledger, usual, given, reasons if unused else None))
    _say(found[:limit], len(found), reasons, ledger, "json" if as_json else form)


def _say(shown: list[Finding], count: int, reasons: _Reasons, ledger: Ledger, form: str) -> None:
    if form == "json":
        print_json([row(finding) | _dismissal(finding, reasons) for finding in shown])
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
    if same := may_be(finding, ledger):
        yield f"    {same}"
    if not finding.state.dismissed:
        return
    if held := finding.suppression:
        until = f" until {held.expires}" if held.expires else ""
        yield f"    by {sanitize(held.by or 'somebody')}{until}: {sanitize(held.reason or 'no reason given')}"
    yield from (f"    unused: {told(finding, reason)}" for reason in reasons.get(finding.id, ()))
