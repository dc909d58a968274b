"""`awf review`: review the current change, and fix what is found if asked to."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pipeline.app.check import check
from pipeline.app.findings.ledger import find_repository, open_ledger
from pipeline.app.findings.lookup import require_full_review
from pipeline.app.review import (
    WORKFLOW,
    ReviewTarget,
    choose_reviewers,
    find_target,
    refuse_if_answers_wait,
    required_reviewers,
    with_reviewers,
)
from pipeline.app.runs import RunResult
from pipeline.app.store import RunStore
from pipeline.app.wiring import Runtime
from pipeline.cli.diagnostics import print_diagnostics
from pipeline.cli.findings.options import utc_now
from pipeline.cli.location import catalog, project
from pipeline.cli.options import agent_options, current_settings, read_agent_options
from pipeline.cli.run import WatchOptions, execute_run, prepare_run, watch_options
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.errors import AwfError, ExitCode
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.review_options import COMMAND, OPTION
from pipeline.language.model import Lens

_LENSES = (*(lens.value for lens in Lens), "all")


@click.command("review")
@click.option("--base", metavar="REF", help="Compare with where this branch left REF. [default: the default branch]")
@click.option(
    "--mode",
    type=click.Choice(["full", "quick", "verify"]),
    default="full",
    show_default=True,
    help="quick: only what must be fixed now, and no report. verify: only fixes that were claimed.",
)
@click.option("--lens", "lenses", type=click.Choice(_LENSES), multiple=True, help="Repeatable. [default: code-review]")
@click.option("--scope", "paths", type=click.Path(path_type=Path), multiple=True, help="Only this path. Repeatable.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this reviewer or tool. Repeatable.")
@click.option("--goal", default="", help="What the change is meant to do. [default: the workflow's goal]")
@click.option("--fix", is_flag=True, help="Decide on each finding, fix the chosen ones, and review again.")
@click.option(
    "--apply", "applied", type=click.Choice(["all", "must"]), help="Fix without asking: everything, or what must be."
)
@click.option(
    "--fail-on",
    type=click.Choice(["abort", "fail", "warn"]),
    default="fail",
    show_default=True,
    help="The mildest verdict that makes the command fail.",
)
@click.option("--whole", is_flag=True, help="Give every reviewer the whole change, whatever it has seen before.")
@click.option(
    "--open", "every", is_flag=True, help="With --mode verify: ask about every open finding, not only claims."
)
@click.option("--no-report", is_flag=True, help="Do not write a report below docs/code-reviews.")
@agent_options
@store_location_options
@watch_options
def command(
    base: str | None,
    mode: str,
    lenses: tuple[str, ...],
    paths: tuple[Path, ...],
    only: tuple[str, ...],
    goal: str,
    applied: str | None,
    fail_on: str,
    where: StoreLocation,
    watch: WatchOptions,
    *,
    fix: bool,
    no_report: bool,
    whole: bool,
    every: bool,
    **agent: Any,
) -> int:
    """Review the current change with several reviewers and the tools of the settings.

    The change is what differs from the commit at which this branch left the default branch; uncommitted and new files
    are included. The reviewers are those of the workflow "review": copy it into your project to change them.

    Exits with 0 if the verdict is milder than --fail-on, 1 if it is not, 3 if the review is incomplete or waits for a
    person, 130 if it is cancelled. Whether everybody has looked at the whole change is what "awf verdict" says.

    If an earlier review of the same change was stopped after somebody had found something, resume that one first.
    """
    if watch.detach and not where.on:
        raise click.UsageError("--detach needs a cluster; name one with --on")
    if mode == "verify" and where.on:
        raise click.UsageError("--mode verify needs the ledger of this machine and cannot be combined with --on")
    root, wanted = project(), frozenset(Lens) if "all" in lenses else frozenset(map(Lens, lenses or ("code-review",)))
    settings = current_settings()
    target = find_target(root, os.environ, where.store.absolute(), base, paths)
    if every and mode != "verify":
        raise click.UsageError("--open goes with --mode verify")
    claims = _to_verify(where.store, every=every) if mode == "verify" else []
    if not target.files and mode != "verify":
        help = "name another base, such as: awf review --base HEAD~1"
        raise AwfError(f"nothing to review: no file differs from {target.base[:12]} ({target.target})", help=help)
    entry = catalog().find(WORKFLOW)
    checked = check(entry)
    workflow = checked.workflow
    if workflow is None:
        print_diagnostics(checked)
        raise AwfError(f'"{checked.source.name}" has errors and cannot be run', help="fix them, or remove the file")
    chosen = choose_reviewers(workflow, wanted, only, settings.review_tools, claims)
    checked = with_reviewers(checked, workflow, chosen)
    options = read_agent_options(**agent)
    required = list(required_reviewers(workflow, settings.review_tools, chosen))
    how = {"required": required, "whole": whole, "open": every, "report": not no_report and mode == "full"}
    options[OPTION] = _review_options(target, mode, sorted(wanted), fail_on) | how
    inputs = {"fix": applied or "ask"} if applied or fix else {}
    record = prepare_run(WORKFLOW, entry, checked, goal, inputs, options, where)
    if record is None:
        return ExitCode.USAGE

    def start(store: RunStore, runtime: Runtime) -> RunResult:
        refuse_if_answers_wait(store.journal)
        return store.start(record, runtime, checked.workflow)

    return execute_run(start, where, replace(watch, events=False))


def _review_options(target: ReviewTarget, mode: str, lenses: list[Lens], fail_on: str) -> dict[str, Any]:
    """What the run's first record says about the review, so that every reader and a resumed run know it."""
    return {
        "mode": mode,
        "base": target.base,
        "target": target.target,
        "scope": target.scope,
        "paths": list(target.paths),
        "caller": COMMAND,
        "lenses": [str(lens) for lens in lenses],
        "fail_on": fail_on,
    }


def _to_verify(store: Path, *, every: bool) -> list[Finding]:
    """Return the findings to verify, those claimed in the view files included; raise AwfError without any."""
    repository = find_repository(None, Path.cwd(), os.environ, current_settings().record_writers)
    with open_ledger(store, repository, utc_now()) as opened:  # records the claims, so that the run sees them
        found = [finding for finding in opened.ledger.findings.values() if finding.state.is_open]
        if found:
            require_full_review(opened.ledger)
    if every and not found:
        raise AwfError("nothing to verify: no finding is open", help="start with: awf review")
    claimed = [one for one in found if one.state in (FindingState.FIX_CLAIMED, FindingState.REOPENED)]
    if not every and not claimed:
        help = 'an agent claims a fix in its answer, or as "fixed" in a verdict file; --open asks about all findings'
        raise AwfError("no fix to verify: no finding is claimed to be fixed, and none was reopened", help=help)
    return found if every else claimed
