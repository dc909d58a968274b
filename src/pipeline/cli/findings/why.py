"""`awf findings why`: the story of a finding, or the fate of one item of a pass."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pipeline.app.findings.lookup import find_finding
from pipeline.app.findings.story import became, fates, place_of, story
from pipeline.cli.findings.asked import look_at, repo_option, run_option
from pipeline.cli.findings.table import COLUMNS
from pipeline.cli.output import terminal_width
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style, sanitize
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding
from pipeline.text import truncate

_LONGEST = 4000  # characters of a line


@click.command("why")
@click.argument("id")
@store_location_options
@run_option
@repo_option
def command(id: str, where: StoreLocation, run: str, repo: Path | None) -> None:
    """Tell why a finding is what it is: who said it, how it was recognised, who decided what.

    ID is a finding's id, the beginning of one, its number, or an item of a pass such as "ruff#3".
    """
    ledger, style = look_at(where, run, repo).ledger, Style.of(sys.stdout)
    told = _fate(id, ledger, style) if _is_input(id, ledger) else story_lines(find_finding(id, ledger), ledger, style)
    click.echo("\n".join(told))


def _is_input(name: str, ledger: Ledger) -> bool:
    return ledger.find(name) is None and bool(fates(name, ledger))


def story_lines(finding: Finding, ledger: Ledger, style: Style) -> Iterator[str]:
    """A finding's story as it is printed."""
    yield style.name(_fitted(f"#{finding.number} {finding.id}  {finding.title}"))
    for part in story(finding, ledger):
        yield style.quiet(part.title)
        yield from (_fitted(f"  {line}") for line in part.lines)


def _fate(input_id: str, ledger: Ledger, style: Style) -> Iterator[str]:
    """Its fate in the last pass that had it, and how many earlier ones had one of that name."""
    (passed, entry), *earlier = fates(input_id, ledger)
    yield style.name(_fitted(f"{entry.input_id} of {passed.id}  {entry.title}"))
    into = f" into {entry.into}" if entry.into else ""
    yield _fitted(f"  {entry.disposition}{into}: {entry.reason}")
    if finding := became(passed, entry, ledger):
        yield _fitted(f"  it is part of #{finding.number} {finding.id} at {place_of(finding)}: {finding.title}")
    if earlier:
        yield f"  earlier passes had an item of this name: {', '.join(one.id for one, _ in earlier[:5])}"


def _fitted(text: str) -> str:
    """A line of the story; on a terminal as wide as that, else whole."""
    return truncate(sanitize(text[:_LONGEST]), max(terminal_width() - 1, COLUMNS - 1))
