"""`awf findings triage`: a decision about findings, for each of them applied or refused.

What is chosen by a filter is shown before anything is decided, and a person says yes, or `--yes` does.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from pipeline.app.findings.ledger import Repository
from pipeline.app.findings.queries import ALL_STATES, DISMISSED_STATES, NEEDS_ATTENTION, narrow, select
from pipeline.app.findings.triage import (
    Choose,
    ChosenFindings,
    TriageRequest,
    TriageResult,
    apply_triage,
    preview_triage,
)
from pipeline.cli.findings.lists import table
from pipeline.cli.findings.options import (
    build_filter,
    current_repository,
    filter_options,
    print_problems,
    repo_option,
    stale_dismissals_in,
    stale_option,
    utc_now,
)
from pipeline.cli.options import as_json_option, store_option
from pipeline.cli.output import print_json
from pipeline.cli.terminal import Style, sanitize
from pipeline.errors import AwfError, ExitCode
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor
from pipeline.findings.triage import STATUSES
from pipeline.text import plural

_SHOWN = 20  # findings of a preview; the rest is counted
_NAMES = 5  # that are told with one reason
_WHICH = "name them by id or number, or choose them, as with --severity low; --state outstanding is all that are open"


@click.command("triage")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--as", "status", type=click.Choice(STATUSES), required=True, help="What they are.")
@click.option("--note", default="", metavar="TEXT", help="Why; a dismissal needs it.")
@click.option("--expires", default="", metavar="DATE", help="The last day on which a dismissal holds.")
@click.option(
    "--by",
    type=click.Choice([str(actor) for actor in Actor]),
    default=str(Actor.USER),
    show_default=True,
    help="Who decides; not everybody may decide everything.",
)
@filter_options
@stale_option
@click.option("-y", "--yes", is_flag=True, help="Decide about what the filters take without asking.")
@click.option("--dry-run", is_flag=True, help="Only show what would be decided.")
@store_option
@repo_option
@as_json_option
def command(
    ids: tuple[str, ...],
    status: str,
    note: str,
    expires: str,
    by: str,
    store: Path,
    repo: Path | None,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Decide about findings. What may not be decided is refused with the reason, and the rest is applied.

    Name them, or choose them by the filters of "awf findings list"; filters narrow what is named. What is chosen by a
    filter is shown first, and decided when you say yes.

    A dismissal holds for the code as it is now: when that changes, the finding is shown again.
    """
    filtered, where = any(given.values()), current_repository(repo)
    if not ids and not filtered:
        raise AwfError("it is not said which findings are meant", help=_WHICH)
    if "AWF_STAGE" in os.environ and by in (Actor.USER, Actor.REVALIDATE):
        by = str(Actor.ORCHESTRATOR)  # a stage of a run has the rights of an agent, whatever --by says
    about = (_choice(ids, given, where), TriageRequest(status, by, note, expires), store, where.root, utc_now())
    planned = preview_triage(*about) if dry_run or (filtered and not yes) else None
    if planned is not None and (code := _shown(planned, dry_run=dry_run, as_json=as_json)) is not None:
        return code
    done = apply_triage(*about, agreed=planned.seal if planned else "", trust=where.trust)
    _say(done, "applied", filtered=filtered, as_json=as_json)
    return _code(done)


def _shown(planned: TriageResult, *, dry_run: bool, as_json: bool) -> ExitCode | None:
    """Show what would be decided; the exit code where it ends with that."""
    _say(planned, "planned", filtered=True, as_json=as_json)
    if dry_run:
        return ExitCode.SUCCESS
    if not planned.moves:
        return _code(planned)
    return None if _agreed(len(planned.moves), as_json=as_json) else ExitCode.CANCELLED


def _code(done: TriageResult) -> ExitCode:
    return ExitCode.RUN_FAILED if done.refused else ExitCode.SUCCESS


def _choice(ids: tuple[str, ...], given: dict[str, Any], where: Repository) -> Choose:
    """Those that are named, those that the filters take, or those that are both."""

    def choose(ledger: Ledger) -> ChosenFindings:
        if not any(given.values()):
            return ChosenFindings(ids)
        unused = given["unused"]
        usual = ALL_STATES if ids else DISMISSED_STATES if unused else NEEDS_ATTENTION
        wanted = build_filter(ledger, usual, given, stale_dismissals_in(ledger, where) if unused else None)
        if not ids:
            return ChosenFindings(tuple(finding.id for finding in select(ledger, wanted)))
        names, left = narrow(ids, ledger, wanted)
        return ChosenFindings(tuple(names), (f"not among what the filters take: {_some(left)}",) if left else ())

    return choose


def _agreed(count: int, *, as_json: bool) -> bool:
    """Whether somebody says yes. A program is never asked, and neither is a pipe."""
    if as_json or not sys.stdin.isatty():
        raise AwfError("nothing was decided: nobody said yes to it", help="add --yes to decide, or --dry-run to look")
    if click.confirm(f"Decide about {plural(count, 'finding')}? (y/N)", show_default=False, err=True):
        return True
    click.echo("Nothing was decided.", err=True)
    return False


def _say(done: TriageResult, word: str, *, filtered: bool, as_json: bool) -> None:
    if as_json:
        print_json(done.as_json(word))
        return
    if not done.moves and not done.refused:
        click.echo("No findings to decide about.", err=True)
    if word == "planned":
        _print_plan(done)
    elif filtered:
        _print_counts(done)
    else:
        for move in done.moves:
            click.echo(f"#{move.finding.number} {move.finding.id} is {move.state}: {sanitize(move.finding.title)}")
    _print_refused(done)
    print_problems(done.problems)


def _print_plan(done: TriageResult) -> None:
    for state, findings in done.by_state.items():
        click.echo(f"{plural(len(findings), 'finding')} would become {state}:")
        click.echo("\n".join(table(findings[:_SHOWN], states=True)))
        if len(findings) > _SHOWN:
            click.echo(f"and {len(findings) - _SHOWN} more; --dry-run --json has all of them")


def _print_counts(done: TriageResult) -> None:
    for state, findings in done.by_state.items():
        click.echo(f"{len(findings)} {'finding is' if len(findings) == 1 else 'findings are'} {state} now.")


def _print_refused(done: TriageResult) -> None:
    """Each reason once, with the findings that it is about."""
    style = Style.of(sys.stderr)
    for reason, refused in done.reasons.items():
        click.echo(f"{style.error('refused')}: {_some(refused)}: {sanitize(reason)}", err=True)


def _some(names: Iterable[str]) -> str:
    told = [sanitize(name) for name in names]
    more = f" and {len(told) - _NAMES} more" if len(told) > _NAMES else ""
    return ", ".join(told[:_NAMES]) + more
