"""`awf findings show` and `why`, and `awf verdict`: what is known about one finding, or about all of them, and why."""

import sys
from collections.abc import Iterator

import click

from pipeline.app.findings.commit_gate import check_commit
from pipeline.app.findings.ledger import find_finding
from pipeline.app.findings.queries import VerdictSummary, summarize_verdict
from pipeline.cli.findings.lists import COLUMNS
from pipeline.cli.findings.options import FindingsSource, source_options, stale_note
from pipeline.cli.options import as_json_option, settings_or_defaults
from pipeline.cli.output import print_json, terminal_width
from pipeline.cli.terminal import Style, best_effort_output, sanitize
from pipeline.errors import ExitCode
from pipeline.findings.explanation import (
    explain,
    explain_item,
    last_seen,
    location_text,
    member_line,
    possible_duplicates,
)
from pipeline.findings.formats.strict_json import finding_record
from pipeline.findings.ledger import Ledger, joined_to
from pipeline.findings.model import Evidence, Finding
from pipeline.findings.verdicts import Readiness, Shipping, Verdict
from pipeline.text import plural, truncate

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
    reporters = tuple(dict.fromkeys(vote.reviewer for vote in finding.votes)) or finding.sources
    fewer = finding.state.needs_attention and {*finding.sources} < {*reporters}
    still = f"; still by {', '.join(finding.sources)}" if fewer else ""
    yield "id", finding.id
    yield "part of", joined_to(finding)
    yield "place", location_text(finding)
    yield "state", f"{finding.state}; {last_seen(finding)}"
    yield "unreadable", finding.unreadable
    yield "note", possible_duplicates(finding, ledger)
    yield "severity", f"{finding.severity}, {finding.gate.value}, confidence {finding.confidence.value}"
    yield "category", f"{finding.category}, {finding.lens}"
    yield "reported by", ", ".join(reporters) + still
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
    if ledger.find(id) is None and (lines := explain_item(id, ledger)):
        title, *rest = lines
        click.echo("\n".join([style.name(_fit(title)), *(_fit(f"  {line}") for line in rest)]))
    else:
        click.echo("\n".join(explanation_lines(find_finding(id, ledger), ledger, style)))


def explanation_lines(finding: Finding, ledger: Ledger, style: Style) -> Iterator[str]:
    """The explanation of a finding as it is printed."""
    yield style.name(_fit(f"#{finding.number} {finding.id}  {finding.title}"))
    for title, lines in explain(finding, ledger).items():
        yield style.quiet(title)
        yield from (_fit(f"  {line}") for line in lines)


def _fit(text: str) -> str:
    """A line cut to the width of a terminal; whole if the output is not one."""
    return truncate(sanitize(text[:_MAX_LINE]), max(terminal_width() - 1, COLUMNS - 1))


@click.command("verdict")
@click.option(
    "--fail-on",
    type=click.Choice(["warn", "fail"]),
    default="fail",
    show_default=True,
    help="The mildest verdict that makes the exit code 1.",
)
@click.option(
    "--at",
    "revision",
    metavar="COMMIT",
    help="Say only whether this commit may ship: the last review of exactly its files says so.",
)
@source_options
@as_json_option
def verdict_command(fail_on: str, revision: str | None, source: FindingsSource, *, as_json: bool) -> int:
    """Print the verdict on all findings: PASS, WARN, FAIL or ABORT.

    Exits with 1 for FAIL, ABORT and an incomplete review, and with 0 otherwise. A claimed fix does not count until
    someone has verified it. Dismissed findings that would block are listed. If the verdict of the last review alone
    differs, a line says why.

    With --at, exits with 0 only if a complete review of exactly the files of that commit says "ship".
    """
    ledger = source.read()
    if revision is not None:
        checked = check_commit(ledger, source.repository, revision, settings_or_defaults().review_reports)
        with best_effort_output():
            if as_json:
                print_json(checked.as_json())
            else:
                click.echo(sanitize(checked.text))
        return ExitCode.SUCCESS if checked.ships else ExitCode.RUN_FAILED
    summary = summarize_verdict(ledger)
    with best_effort_output():
        if as_json:
            print_json(summary.as_json())
        else:
            _print_verdict(summary)
            if stale := source.stale_dismissals(ledger):
                click.echo(f"note: {stale_note(len(stale))}", err=True)
    return ExitCode.RUN_FAILED if summary.failing(Verdict(fail_on.upper())) else ExitCode.SUCCESS


def _print_verdict(summary: VerdictSummary) -> None:
    style = Style.of(sys.stdout)
    paint = style.error if summary.failing() else style.warning if summary.failing(Verdict.WARN) else style.good
    click.echo(paint(sanitize(summary.headline)))
    if summary.difference:
        click.echo(sanitize(f"  {summary.difference}"))
    for gap in summary.gaps:
        click.echo(f"  {sanitize(gap)}")
    if summary.dismissed:
        click.echo("Dismissed findings that would block:")
    for one in summary.dismissed:
        why = f"{one['severity']}, {one['state']} by {one['by'] or 'unknown'}: {one['note'] or 'no reason given'}"
        click.echo(sanitize(f"  #{one['number']} {one['title']} ({why})"))
    click.echo(_readiness(summary))


def _readiness(summary: VerdictSummary) -> str:
    """Whether the change can be merged, and what prevents it."""
    if not summary.verdicts.complete:
        return "Not ready: the review is incomplete"
    if summary.verdicts.shipping is Shipping.SHIP:
        return str(summary.verdicts.readiness)
    unverified = "1 fix is unverified" if summary.claimed == 1 else f"{summary.claimed} fixes are unverified"
    reasons = {
        f"{plural(summary.required, 'finding')} must be fixed": summary.required > 0,
        unverified: summary.claimed > 0,
        "files changed while the reviewers worked": (
            summary.verdicts.shipping is Shipping.BLOCK_ON_REJECTION
            and summary.review is not None
            and summary.review.tree_changed
        ),
    }
    rejections = [f"{one.reviewer} rejects the change: {one.argument or 'no reason'}" for one in summary.rejections]
    said = [*(reason for reason, applies in reasons.items() if applies), *rejections]
    only_fixes = len(said) == 1 and summary.required > 0
    word = summary.verdicts.readiness if only_fixes else Readiness.NOT_READY
    return sanitize(f"{word}: {', '.join(said)}")
