"""`awf findings triage`, `merge` and `split`: decide about findings, and which of them are one line of work."""

import os
import sys
from collections.abc import Iterable
from typing import Any

import click

from pipeline.app.findings.ledger import timestamp
from pipeline.app.findings.queries import ALL_STATES, OPEN_STATES, narrow, select
from pipeline.app.findings.triage import (
    Choose,
    ChosenFindings,
    TriageRequest,
    TriageResult,
    apply_triage,
    merge,
    plan_triage,
    split,
)
from pipeline.cli.findings.options import (
    FindingsSource,
    build_filter,
    filter_options,
    local_source_options,
    print_problems,
    require_person,
    stale_option,
    utc_now,
)
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json
from pipeline.cli.terminal import Style, sanitize
from pipeline.errors import AwfError, ExitCode
from pipeline.findings.explanation import member_line
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor
from pipeline.findings.triage import STATUSES
from pipeline.text import plural

_MAX_PREVIEW = 20  # findings; the rest are counted
_MAX_NAMES = 5  # with one reason
_WHICH = "name them by id or number, or select them, as with --severity low; --state outstanding selects all open ones"
_note_option = click.option("--note", default="", metavar="TEXT", help="Why; kept in the history.")


@click.command("triage")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--as", "status", type=click.Choice(STATUSES), required=True, help="The decision.")
@click.option("--note", default="", metavar="TEXT", help="Why; required for a dismissal.")
@click.option("--expires", default="", metavar="DATE", help="The last day of a dismissal.")
@click.option(
    "--by",
    type=click.Choice([str(actor) for actor in Actor]),
    default=str(Actor.USER),
    show_default=True,
    help="Who decides; agents may decide less than a user.",
)
@click.option("--only", is_flag=True, help="Only the named findings, not the others of their lines of work.")
@filter_options
@stale_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask before deciding what the filters select.")
@click.option("--dry-run", is_flag=True, help="Only show what would be decided.")
@local_source_options
@as_json_option
def command(
    ids: tuple[str, ...],
    status: str,
    note: str,
    expires: str,
    by: str,
    source: FindingsSource,
    *,
    only: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Decide about findings: open, fixed, or dismissed. What is not allowed is refused with a reason; the rest applies.

    Name findings, or select them with the filters of "awf findings list"; both together narrow the selection. What a
    filter selects is shown first, and decided after you confirm. A decision on a number counts for all open findings of
    that line of work, which are listed; --only means the named findings alone.

    A dismissal covers the code as it is now. Once that has changed, a new report of the finding counts again.
    """
    filtered = any(given.values())
    if not ids and not filtered:
        raise AwfError("no findings given", help=_WHICH)
    if only and not ids:
        raise AwfError("--only needs the ids or numbers of findings", help="name them; nothing was decided")
    who = Actor(by)
    if "AWF_STAGE" in os.environ and who in (Actor.USER, Actor.REVALIDATE):
        who = Actor.ORCHESTRATOR  # a stage of a run has the rights of an agent, whatever --by says
    choose, request = _selection(ids, given, source), TriageRequest(status, who, note, expires, only or given["unused"])
    agreed = ""
    if dry_run or (filtered and not yes):
        planned = plan_triage(choose, request, source.snapshot(), timestamp(utc_now()))
        _print_result(planned, "planned", filtered=True, as_json=as_json)
        if dry_run:
            return ExitCode.SUCCESS
        if not planned.moves:
            return ExitCode.RUN_FAILED if planned.refused else ExitCode.SUCCESS
        if not _confirm(len(planned.moves), as_json=as_json):
            return ExitCode.CANCELLED
        agreed = planned.digest
    done = apply_triage(choose, request, source.store, source.repository, utc_now(), agreed)
    _print_result(done, "applied", filtered=filtered, as_json=as_json)
    return ExitCode.RUN_FAILED if done.refused else ExitCode.SUCCESS


@click.command("merge")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.argument("into")
@_note_option
@local_source_options
@as_json_option
def merge_command(ids: tuple[str, ...], into: str, note: str, source: FindingsSource, *, as_json: bool) -> None:
    """Make findings part of the line of work of another one, INTO, because they are the same defect.

    The line of work is one row in lists and counts once, by its worst open finding. Each finding keeps its text, its
    severity and its state, and "awf findings split" separates them again.
    """
    require_person("merge")
    findings, line, problems = merge(ids, into, source.store, source.repository, utc_now(), note)
    if as_json:
        print_json({"merged": [one.id for one in findings], "into": line.id, "problems": problems})
        return
    for one in findings:
        click.echo(f"#{one.number} {one.id} is part of #{line.number} {line.id} now.")
    print_problems(problems)


@click.command("split")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_note_option
@local_source_options
@as_json_option
def split_command(ids: tuple[str, ...], note: str, source: FindingsSource, *, as_json: bool) -> None:
    """Make findings lines of work of their own, because they are different defects.

    If the finding that gives a line its number is split off, the others stay together under the oldest of them.
    """
    require_person("split")
    findings, problems = split(ids, source.store, source.repository, utc_now(), note)
    if as_json:
        print_json({"split": [one.id for one in findings], "problems": problems})
        return
    for one in findings:
        click.echo(f"#{one.number} {one.id} is a line of work of its own now: {sanitize(one.title)}")
    print_problems(problems)


def _selection(ids: tuple[str, ...], given: dict[str, Any], source: FindingsSource) -> Choose:
    """Return what chooses the lines of work that are named, those that the filters select, or those that are both."""

    def choose(ledger: Ledger) -> ChosenFindings:
        if not any(given.values()):
            return ChosenFindings(ids)
        if given["unused"]:
            return _stale_findings(ids, given, ledger, source)
        wanted = build_filter(ledger, ALL_STATES if ids else OPEN_STATES, given)
        if not ids:
            return ChosenFindings(tuple(line.id for line in select(ledger.lines(), wanted)))
        names, others = narrow(ids, ledger, wanted)
        return ChosenFindings(tuple(names), (f"not selected by the filters: {_some(others)}",) if others else ())

    return choose


def _stale_findings(
    ids: tuple[str, ...], given: dict[str, Any], ledger: Ledger, source: FindingsSource
) -> ChosenFindings:
    """Return the findings whose dismissal is stale, each by itself: nothing else of its line of work was dismissed."""
    stale = source.stale_dismissals(ledger)
    lines = select(ledger.lines(), build_filter(ledger, ALL_STATES, given, stale))
    found = [member for line in lines for member in line.members if member.id in stale]
    wanted = {finding.id for name in ids if (finding := ledger.find(name))}
    return ChosenFindings(tuple(one.id for one in found if not ids or one.id in wanted))


def _confirm(count: int, *, as_json: bool) -> bool:
    """Ask on a terminal. A program or a pipe cannot be asked."""
    if as_json or not sys.stdin.isatty():
        raise AwfError("nothing was decided without confirmation", help="add --yes to decide, or --dry-run to preview")
    if click.confirm(f"Decide about {plural(count, 'finding')}? (y/N)", show_default=False, err=True):
        return True
    click.echo("Nothing was decided.", err=True)
    return False


def _print_result(result: TriageResult, word: str, *, filtered: bool, as_json: bool) -> None:
    if as_json:
        print_json(result.as_json(word))
        return
    if not result.moves and not result.refused:
        click.echo("No findings to decide about.", err=True)
    if word == "planned":
        for state, findings in result.by_state.items():
            click.echo(f"{plural(len(findings), 'finding')} would become {state}:")
            click.echo("\n".join(f"  {sanitize(member_line(one))}" for one in findings[:_MAX_PREVIEW]))
            if len(findings) > _MAX_PREVIEW:
                click.echo(f"and {len(findings) - _MAX_PREVIEW} more; --dry-run --json lists all")
    elif filtered:
        for state, findings in result.by_state.items():
            click.echo(f"{plural(len(findings), 'finding is', 'findings are')} {state} now.")
    else:
        for move in result.moves:
            one = move.finding
            click.echo(sanitize(f"#{one.number} {one.id} by {one.reviewer} is {move.state}: {one.title}"))
    style = Style.of(sys.stderr)
    for reason, names in result.reasons.items():
        click.echo(f"{style.error('refused')}: {_some(names)}: {sanitize(reason)}", err=True)
    print_problems(result.problems)


def _some(names: Iterable[str]) -> str:
    shown = [sanitize(name) for name in names]
    more = f" and {len(shown) - _MAX_NAMES} more" if len(shown) > _MAX_NAMES else ""
    return ", ".join(shown[:_MAX_NAMES]) + more
