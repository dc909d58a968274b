"""`awf verdict`: the verdict on all findings, for people and for CI."""

import sys
from pathlib import Path

import click

from pipeline.app.findings.queries import VerdictSummary, summarize_verdict
from pipeline.cli.findings.options import (
    current_repository,
    load_snapshot_at,
    repo_option,
    run_option,
    stale_dismissals_in,
    stale_note,
)
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style, best_effort_output, sanitize
from pipeline.errors import ExitCode
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Gate
from pipeline.findings.verdicts import Shipping, Verdict
from pipeline.text import plural


@click.command("verdict")
@click.option(
    "--fail-on",
    type=click.Choice(["warn", "fail"]),
    default="fail",
    show_default=True,
    help="The mildest verdict that makes the exit code 1.",
)
@store_location_options
@run_option
@repo_option
@as_json_option
def command(fail_on: str, where: StoreLocation, run: str, repo: Path | None, *, as_json: bool) -> int:
    """Print the verdict on all findings: PASS, WARN, FAIL or ABORT.

    Exits with 1 for FAIL, ABORT and an incomplete review, and with 0 otherwise. A claimed fix does not count until
    someone has verified it. Dismissed findings that would block are listed.
    """
    ledger = load_snapshot_at(where, run, repo).ledger
    summary = summarize_verdict(ledger)
    with best_effort_output():
        if as_json:
            print_json(summary.as_json())
        else:
            _print(summary, ledger)
            if unused := stale_dismissals_in(ledger, current_repository(repo)):
                click.echo(f"note: {stale_note(len(unused))}", err=True)
    return ExitCode.RUN_FAILED if summary.failing(Verdict(fail_on.upper())) else ExitCode.SUCCESS


def _print(summary: VerdictSummary, ledger: Ledger) -> None:
    style = Style.of(sys.stdout)
    paint = style.error if summary.failing() else style.warning if summary.failing(Verdict.WARN) else style.good
    click.echo(paint(sanitize(summary.told())))
    for gap in summary.gaps:
        click.echo(f"  {sanitize(gap)}")
    if summary.dismissed:
        click.echo("Dismissed findings that would block:")
    for finding in summary.dismissed:
        by, note = sanitize(finding.by or "unknown"), sanitize(finding.note or "no reason given")
        click.echo(
            f"  #{finding.number} {sanitize(finding.title)} ({finding.severity}, {finding.state} by {by}: {note})"
        )
    click.echo(_readiness(summary, ledger))


def _readiness(summary: VerdictSummary, ledger: Ledger) -> str:
    """Say whether the change can be merged, and what is in the way."""
    if not summary.complete:
        return "Not ready: the review is incomplete"
    if summary.verdicts.shipping is Shipping.SHIP:
        return str(summary.verdicts.readiness)
    required = sum(one.state.active and one.gate.value is Gate.MUST and not one.pre_existing for one in ledger)
    unverified = "1 fix is unverified" if summary.claimed == 1 else f"{summary.claimed} fixes are unverified"
    reasons = {
        f"{plural(required, 'finding')} must be fixed": required > 0,
        unverified: summary.claimed > 0,
        "a reviewer rejects the change": summary.verdicts.shipping is Shipping.BLOCK_ON_REJECTION,
    }
    return f"Not ready: {', '.join(reason for reason, applies in reasons.items() if applies)}"
