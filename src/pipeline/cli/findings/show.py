"""`awf findings show` and `why`, and `awf verdict`: what is known about one finding, or about a target, and why."""

import sys
from collections.abc import Callable, Iterator, Sequence

import click

from pipeline.app.findings.commit_gate import check_commit, later_base
from pipeline.app.findings.lookup import find_finding
from pipeline.app.findings.queries import dismissed_blockers, is_failing, line_row, review_json, verify_command
from pipeline.cli.findings.lists import COLUMNS, table
from pipeline.cli.findings.options import FindingsSource, changed_text, source_options, stale_note
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json, terminal_width
from pipeline.cli.terminal import Style, best_effort_output, sanitize
from pipeline.errors import ExitCode
from pipeline.findings.explanation import (
    change_text,
    count_lines,
    explain,
    explain_item,
    location_text,
    member_line,
    possible_duplicates,
)
from pipeline.findings.formats.strict_json import finding_record
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Evidence, Finding, FindingState
from pipeline.findings.places import Marks
from pipeline.findings.reviews import Review, review
from pipeline.findings.verdicts import Readiness, Verdict
from pipeline.text import listing, plural, truncate

_MAX_LINE = 4000  # characters
_MAX_BLOCKING = 20  # lines of work; the rest are counted


@click.command("show")
@click.argument("id")
@source_options
@as_json_option
def show_command(id: str, source: FindingsSource, *, as_json: bool) -> None:
    """Show a finding: what it says, its evidence, its state and history, and the other findings of its line of work.

    ID is the id of a finding, a prefix of it, its number, or an alias.
    """
    ledger = source.read()
    finding = find_finding(id, ledger)
    marks = Marks(source.repository.root)
    (line,) = source.current_lines([ledger.line(finding.id)], ledger)
    members = sorted(line.members, key=lambda member: member.id != finding.id)  # the one that was asked for first
    if as_json:
        print_json(finding_record(members[0], ledger) | {"marks": list(marks.of_finding(members[0]))})
    else:
        click.echo("\n".join(_detail_lines(members, ledger, marks, Style.of(sys.stdout))))


def _detail_lines(members: list[Finding], ledger: Ledger, marks: Marks, style: Style) -> Iterator[str]:
    first, *others = members
    yield style.name(f"#{first.number} {sanitize(first.title)}")
    yield from _finding_lines(first, ledger, marks, style)
    for member in others:
        yield ""
        yield style.name(f"Also {sanitize(member_line(member))}")
        yield from _finding_lines(member, ledger, marks, style)
    yield ""
    yield f'"awf findings why {first.number}" explains why.'


def _finding_lines(finding: Finding, ledger: Ledger, marks: Marks, style: Style) -> Iterator[str]:
    facts = _facts(finding, ledger, marks)
    yield from (f"{name + ':':<14}{sanitize(value)}" for name, value in facts if value)
    yield from _texts(finding, style)


def _facts(finding: Finding, ledger: Ledger, marks: Marks) -> Iterator[tuple[str, str]]:
    head = ledger.findings[finding.line]
    yield "id", finding.id
    yield "line of work", f"#{head.number}" if head.id != finding.id else ""
    yield "place", location_text(finding)
    yield "state", ", ".join((finding.state, *marks.of_finding(finding)))
    yield "unreadable", finding.unreadable
    yield "note", possible_duplicates(finding, ledger)
    yield "severity", f"{finding.severity}, {finding.gate}, confidence {finding.confidence.value}"
    yield "written as", finding.severity_text
    yield "category", f"{finding.category}, {finding.lens}"
    yield "reported by", finding.reviewer
    yield "fix", f"{finding.autofix_class}, {finding.owner}"
    yield "aliases", ", ".join(finding.aliases)


def _texts(finding: Finding, style: Style) -> Iterator[str]:
    texts = {
        "What breaks": finding.impact,
        "Fix": finding.fix or "",
        "Reproduction": finding.reproduction or "",
        "Evidence": "\n".join(map(_evidence_text, finding.evidence)),
        "History": "\n".join(map(change_text, finding.history)),
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
    """Explain a finding: who reported it, which line of work it is part of, who said what and when.

    ID is the id of a finding, a prefix of it, its number, or an item of a pass such as "ruff#3".
    """
    ledger, style = source.read(), Style.of(sys.stdout)
    if ledger.find(id) is None and (lines := explain_item(id, ledger)):
        title, *rest = lines
        click.echo("\n".join([style.name(_fit(title)), *(_fit(f"  {line}") for line in rest)]))
    else:
        click.echo("\n".join(explanation_lines(find_finding(id, ledger), ledger, style)))


def explanation_lines(finding: Finding, ledger: Ledger, style: Style) -> Iterator[str]:
    """Return the explanation of a finding as it is printed."""
    yield style.name(_fit(f"#{finding.number} {finding.id}  {finding.title}"))
    for title, lines in explain(finding, ledger).items():
        yield style.quiet(title)
        yield from (_fit(f"  {line}") for line in lines)


def _fit(text: str) -> str:
    """Return a line cut to the width of a terminal; whole if the output is not one."""
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
    help="Say only whether this commit may ship.",
)
@click.option(
    "--base",
    default="",
    metavar="REF",
    help="The change began where the commit left REF. [default: the default branch]",
)
@source_options
@as_json_option
def verdict_command(fail_on: str, revision: str | None, base: str, source: FindingsSource, *, as_json: bool) -> int:
    """Print the verdict on the last target, over everything that is open about it: PASS, WARN, FAIL or ABORT.

    Exits with 0 if the change is ready to merge, as it is or with fixes. Exits with 1 for FAIL and ABORT, and also if
    the review is incomplete, somebody has not looked at the whole change, files changed since, or something elsewhere
    must be fixed. A claimed fix counts as open until it is verified. Dismissed findings that would block are listed.

    With --at, exits with 0 only if nothing that blocks is open, and every reviewer has looked at every part of the
    change up to exactly the files of that commit. A quick review ships nothing, and neither do tools alone.
    """
    ledger = source.read()
    if revision is not None:
        checked = check_commit(ledger, source.repository, revision, base)
        with best_effort_output():
            if as_json:
                print_json(checked.as_json())
            else:
                click.echo(sanitize(checked.text))
        return ExitCode.SUCCESS if checked.ships else ExitCode.RUN_FAILED
    last, worst = review(ledger), Verdict(fail_on.upper())
    changed = source.changed_since(last)
    obstacles = list(filter(None, (_begins_later(last, source, base), changed_text(changed))))
    with best_effort_output():
        if as_json:
            open_lines = source.current_lines(last.open, ledger)
            told = review_json(last) | {"open": list(map(line_row, open_lines)), "changed_since": changed}
            if obstacles:
                told |= {"ship": False, "readiness": str(Readiness.NOT_READY)}
            print_json(told)
        else:
            click.echo("\n".join(_verdict_lines(last, source, obstacles)))
            stale = source.stale_dismissals(ledger)
            if stale:
                click.echo(f"note: {stale_note(len(stale))}", err=True)
    return ExitCode.RUN_FAILED if obstacles or is_failing(last, worst) else ExitCode.SUCCESS


def _begins_later(last: Review, source: FindingsSource, base: str) -> str:
    """Return that only a later part of the change was looked at; empty if it was all of it."""
    if last.passed is None or not last.passed.base:
        return ""
    return later_base(last.ledger, source.repository, last.passed.head or "HEAD", last.passed, base)


def _verdict_lines(last: Review, source: FindingsSource, obstacles: Sequence[str]) -> Iterator[str]:
    yield _paint(last)(sanitize(last.headline))
    blocking = last.blocking
    if blocking:
        yield from table(source.current_lines(blocking[:_MAX_BLOCKING], last.ledger))
    if len(blocking) > _MAX_BLOCKING:
        yield f"and {len(blocking) - _MAX_BLOCKING} more: awf findings list --gate must"
    if last.claimed:
        yield _claimed_text(last)
    yield from (sanitize(f"Incomplete: {gap}") for gap in last.gaps)
    yield from (sanitize(text) for text in last.unruled)
    if last.changed:
        yield "Files changed while the reviewers looked: awf review"
    elif last.unseen:
        yield sanitize(f"{last.missing_looks}: awf review")
    yield from map(sanitize, obstacles)
    if last.unshown:
        yield sanitize(last.unshown)
    dismissed = dismissed_blockers(last)
    if dismissed:
        yield "Dismissed findings that would block:"
    for one in dismissed:
        why = f"{one['severity']}, {one['state']} by {one['by'] or 'unknown'}: {one['note'] or 'no reason given'}"
        yield sanitize(f"  #{one['number']} {one['title']} ({why})")
    if last.elsewhere:
        yield f"Elsewhere: {count_lines(len(last.elsewhere))}{_blocking_text(last)}: awf findings list"
    yield _readiness_text(Readiness.NOT_READY if obstacles else last.readiness(), last)


def _readiness_text(readiness: Readiness, last: Review) -> str:
    """Return whether the change can be merged, and what should still be fixed."""
    if readiness is not Readiness.WITH_FIXES:
        return str(readiness)
    numbers = [f"#{line.number}" for line in last.open]
    return f"{readiness}: {listing(numbers, _MAX_BLOCKING)} should be fixed, and nothing blocks"


def _blocking_text(last: Review) -> str:
    """Return which lines of work elsewhere must be dealt with before anything is merged."""
    named = [f"#{line.number}" for line in last.blocking_elsewhere]
    more = f" and {len(named) - _MAX_BLOCKING} more" if len(named) > _MAX_BLOCKING else ""
    return f", of which {', '.join(named[:_MAX_BLOCKING])}{more} must be dealt with" if named else ""


def _paint(last: Review) -> Callable[[str], str]:
    style = Style.of(sys.stdout)
    if is_failing(last):
        return style.error
    return style.warning if is_failing(last, Verdict.WARN) else style.good


def _claimed_text(last: Review) -> str:
    """Return how many fixes are to be verified, and whether nothing else is in the way."""
    fixes = plural(len(last.claimed), "claimed fix is", "claimed fixes are")
    numbers = ", ".join(f"#{finding.number}" for finding in last.claimed)
    only_claims = last.complete and all(line.state is FindingState.FIX_CLAIMED for line in last.blocking)
    if last.blocking and only_claims:
        return f"{last.verdict} until {fixes} verified ({numbers}): {verify_command(last)}"
    return f"{fixes} not verified ({numbers}): {verify_command(last)}"
