"""`awf findings show`: all that is known of one finding."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pipeline.app.findings.lookup import find_finding
from pipeline.app.findings.records import whole
from pipeline.app.findings.story import may_be, place_of, sighting
from pipeline.cli.findings.asked import look_at, repo_option, run_option
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style, sanitize
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Evidence, Finding, Location


@click.command("show")
@click.argument("id")
@store_location_options
@run_option
@repo_option
@as_json_option
def command(id: str, where: StoreLocation, run: str, repo: Path | None, *, as_json: bool) -> None:
    """Print a finding: what it says, on what evidence, and how it stands.

    ID is a finding's id, the beginning of one, its number, or another name it was given.
    """
    ledger = look_at(where, run, repo).ledger
    finding = find_finding(id, ledger)
    if as_json:
        print_json(whole(finding))
    else:
        click.echo("\n".join(_told(finding, ledger, Style.of(sys.stdout))))


def _told(finding: Finding, ledger: Ledger, style: Style) -> Iterator[str]:
    yield style.name(f"#{finding.number} {sanitize(finding.title)}")
    yield from (f"{name + ':':<13}{sanitize(value)}" for name, value in _facts(finding, ledger) if value)
    yield from _text("What breaks", finding.impact, style)
    yield from _text("Fix", finding.fix or "", style)
    yield from _text("Reproduction", finding.reproduction or "", style)
    yield from _text("Evidence", "\n".join(map(_evidence, finding.evidence)), style)
    yield ""
    yield f'"awf findings why {finding.number}" tells how it came to this.'


def _facts(finding: Finding, ledger: Ledger) -> Iterator[tuple[str, str]]:
    agreed = f", {finding.agreement} agree" if finding.agreement > 1 else ""
    yield "id", finding.id
    yield "place", place_of(finding)
    yield "state", f"{finding.state}; {sighting(finding)}"
    yield "unreadable", finding.unreadable
    yield "note", may_be(finding, ledger)
    yield "severity", f"{finding.severity}, {finding.gate.value}, confidence {finding.confidence.value}"
    yield "category", f"{finding.category}, {finding.lens}"
    yield "said by", ", ".join(finding.sources) + agreed
    yield "to be fixed", f"{finding.autofix_class}, {finding.owner}"
    yield "attempts", str(len(finding.attempts) or "")
    yield "aliases", ", ".join(finding.aliases)


def _evidence(item: Evidence) -> str:
    if not item.path:
        return item.raw
    where = Location(path=item.path, start=item.start, end=item.end)
    return f"{where}: {item.quote}" if item.quote else str(where)


def _text(title: str, words: str, style: Style) -> Iterator[str]:
    if words.strip():
        yield ""
        yield style.quiet(title)
        yield from (f"  {sanitize(line)}" for line in words.splitlines())
