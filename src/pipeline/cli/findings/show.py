"""`awf findings show`: all that is known of one finding."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pipeline.app.findings.explanation import (
    explain,
    finding_of_item,
    item_outcomes,
    last_seen,
    location_text,
    possible_duplicates,
)
from pipeline.app.findings.ledger import find_finding
from pipeline.app.findings.queries import finding_record
from pipeline.cli.findings.lists import COLUMNS
from pipeline.cli.findings.options import load_snapshot_at, repo_option, run_option
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json, terminal_width
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style, sanitize
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Evidence, Finding, Location
from pipeline.text import truncate


@click.command("show")
@click.argument("id")
@store_location_options
@run_option
@repo_option
@as_json_option
def show_command(id: str, where: StoreLocation, run: str, repo: Path | None, *, as_json: bool) -> None:
    """Print a finding: what it says, on what evidence, and how it stands.

    ID is a finding's id, the beginning of one, its number, or another name it was given.
    """
    ledger = load_snapshot_at(where, run, repo).ledger
    finding = find_finding(id, ledger)
    if as_json:
        print_json(finding_record(finding))
    else:
        click.echo("\n".join(_detail_lines(finding, ledger, Style.of(sys.stdout))))


def _detail_lines(finding: Finding, ledger: Ledger, style: Style) -> Iterator[str]:
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
    yield "place", location_text(finding)
    yield "state", f"{finding.state}; {last_seen(finding)}"
    yield "unreadable", finding.unreadable
    yield "note", possible_duplicates(finding, ledger)
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


_LONGEST = 4000  # characters of a line


@click.command("why")
@click.argument("id")
@store_location_options
@run_option
@repo_option
def why_command(id: str, where: StoreLocation, run: str, repo: Path | None) -> None:
    """Tell why a finding is what it is: who said it, how it was recognised, who decided what.

    ID is a finding's id, the beginning of one, its number, or an item of a pass such as "ruff#3".
    """
    ledger, style = load_snapshot_at(where, run, repo).ledger, Style.of(sys.stdout)
    told = (
        _fate(id, ledger, style)
        if _is_input(id, ledger)
        else explanation_lines(find_finding(id, ledger), ledger, style)
    )
    click.echo("\n".join(told))


def _is_input(name: str, ledger: Ledger) -> bool:
    return ledger.find(name) is None and bool(item_outcomes(name, ledger))


def explanation_lines(finding: Finding, ledger: Ledger, style: Style) -> Iterator[str]:
    """A finding's story as it is printed."""
    yield style.name(_fitted(f"#{finding.number} {finding.id}  {finding.title}"))
    for part in explain(finding, ledger):
        yield style.quiet(part.title)
        yield from (_fitted(f"  {line}") for line in part.lines)


def _fate(input_id: str, ledger: Ledger, style: Style) -> Iterator[str]:
    """Its fate in the last pass that had it, and how many earlier ones had one of that name."""
    (passed, entry), *earlier = item_outcomes(input_id, ledger)
    yield style.name(_fitted(f"{entry.input_id} of {passed.id}  {entry.title}"))
    into = f" into {entry.into}" if entry.into else ""
    yield _fitted(f"  {entry.disposition}{into}: {entry.reason}")
    if finding := finding_of_item(passed, entry, ledger):
        yield _fitted(f"  it is part of #{finding.number} {finding.id} at {location_text(finding)}: {finding.title}")
    if earlier:
        yield f"  earlier passes had an item of this name: {', '.join(one.id for one, _ in earlier[:5])}"


def _fitted(text: str) -> str:
    """A line of the story; on a terminal as wide as that, else whole."""
    return truncate(sanitize(text[:_LONGEST]), max(terminal_width() - 1, COLUMNS - 1))
