"""`awf findings show` and `why`: what is known about one finding, and why."""

import sys
from collections.abc import Iterator

import click

from pipeline.app.findings.explanation import (
    explain,
    finding_of_item,
    item_outcomes,
    last_seen,
    location_text,
    member_line,
    possible_duplicates,
)
from pipeline.app.findings.ledger import find_finding
from pipeline.cli.findings.lists import COLUMNS
from pipeline.cli.findings.options import FindingsSource, source_options
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json, terminal_width
from pipeline.cli.terminal import Style, sanitize
from pipeline.findings.formats.strict_json import finding_record
from pipeline.findings.ledger import Ledger, joined_to
from pipeline.findings.model import Evidence, Finding
from pipeline.text import truncate

_MAX_LINE = 4000  # characters


@click.command("show")
@click.argument("id")
@source_options
@as_json_option
def show_command(id: str, source: FindingsSource, *, as_json: bool) -> None:
    """Show a finding: what it says, its evidence and its state, and the findings that are part of it.

    ID is the id of a finding, a prefix of it, its number, or an alias.
    """
    ledger = source.read()
    finding = find_finding(id, ledger)
    if as_json:
        print_json(finding_record(finding, ledger))
    else:
        click.echo("\n".join(_detail_lines(finding, ledger, Style.of(sys.stdout))))


def _detail_lines(finding: Finding, ledger: Ledger, style: Style) -> Iterator[str]:
    yield style.name(f"#{finding.number} {sanitize(finding.title)}")
    yield from (f"{name + ':':<13}{sanitize(value)}" for name, value in _facts(finding, ledger) if value)
    yield from _texts(finding, style)
    for member in ledger.members(finding.id):
        yield ""
        yield style.name(f"Member {sanitize(member_line(member))}")
        yield from _texts(member, style)
    yield ""
    yield f'"awf findings why {finding.number}" explains why.'


def _facts(finding: Finding, ledger: Ledger) -> Iterator[tuple[str, str]]:
    agreement = f", {finding.agreement} agree" if finding.agreement > 1 else ""
    yield "id", finding.id
    yield "part of", joined_to(finding)
    yield "place", location_text(finding)
    yield "state", f"{finding.state}; {last_seen(finding)}"
    yield "unreadable", finding.unreadable
    yield "note", possible_duplicates(finding, ledger)
    yield "severity", f"{finding.severity}, {finding.gate.value}, confidence {finding.confidence.value}"
    yield "category", f"{finding.category}, {finding.lens}"
    yield "reported by", ", ".join(finding.sources) + agreement
    yield "fix", f"{finding.autofix_class}, {finding.owner}"
    yield "attempts", str(len(finding.attempts) or "")
    yield "aliases", ", ".join(finding.aliases)


def _texts(finding: Finding, style: Style) -> Iterator[str]:
    texts = {
        "What breaks": finding.impact,
        "Fix": finding.fix or "",
        "Reproduction": finding.reproduction or "",
        "Evidence": "\n".join(map(_evidence_text, finding.evidence)),
    }
    for title, text in texts.items():
        if text.strip():
            yield ""
            yield style.quiet(title)
            yield from (f"  {sanitize(line)}" for line in text.splitlines())


def _evidence_text(item: Evidence) -> str:
    if not item.path:
        return item.raw
    return f"{item}: {item.quote}" if item.quote else str(item)


@click.command("why")
@click.argument("id")
@source_options
def why_command(id: str, source: FindingsSource) -> None:
    """Explain a finding: who reported it, how it was recognised, what it was merged with, who decided what.

    ID is the id of a finding, a prefix of it, its number, or an item of a pass such as "ruff#3".
    """
    ledger, style = source.read(), Style.of(sys.stdout)
    if ledger.find(id) is None and item_outcomes(id, ledger):
        lines = _item_lines(id, ledger, style)
    else:
        lines = explanation_lines(find_finding(id, ledger), ledger, style)
    click.echo("\n".join(lines))


def explanation_lines(finding: Finding, ledger: Ledger, style: Style) -> Iterator[str]:
    """The explanation of a finding as it is printed."""
    yield style.name(_fit(f"#{finding.number} {finding.id}  {finding.title}"))
    for part in explain(finding, ledger):
        yield style.quiet(part.title)
        yield from (_fit(f"  {line}") for line in part.lines)


def _item_lines(input_id: str, ledger: Ledger, style: Style) -> Iterator[str]:
    """What became of an item in the last pass that had it, and which earlier passes had one of that name."""
    (passed, outcome), *earlier = item_outcomes(input_id, ledger)
    yield style.name(_fit(f"{outcome.input_id} of {passed.id}  {outcome.title}"))
    into = f" into {outcome.into}" if outcome.into else ""
    yield _fit(f"  {outcome.disposition}{into}: {outcome.reason}")
    if finding := finding_of_item(passed, outcome, ledger):
        yield _fit(f"  it is part of #{finding.number} {finding.id} at {location_text(finding)}: {finding.title}")
    if earlier:
        yield f"  earlier passes with an item of this name: {', '.join(one.id for one, _ in earlier[:5])}"


def _fit(text: str) -> str:
    """A line cut to the width of a terminal; whole if the output is not one."""
    return truncate(sanitize(text[:_MAX_LINE]), max(terminal_width() - 1, COLUMNS - 1))
