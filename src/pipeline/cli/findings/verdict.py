"""`awf verdict`: the verdict on all findings, for people and for CI."""

import sys

import click

from pipeline.app.findings.queries import VerdictSummary, summarize_verdict
from pipeline.cli.findings.options import FindingsSource, source_options, stale_note
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json
from pipeline.cli.terminal import Style, best_effort_output, sanitize
from pipeline.errors import ExitCode
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
@source_options
@as_json_option
def command(fail_on: str, source: FindingsSource, *, as_json: bool) -> int:
    """Print the verdict on all findings: PASS, WARN, FAIL or ABORT.

    Exits with 1 for FAIL, ABORT and an incomplete review, and with 0 otherwise. A claimed fix does not count until
    someone has verified it. Dismissed findings that would block are listed.
    """
    ledger = source.read()
    summary = summarize_verdict(ledger)
    with best_effort_output():
        if as_json:
            print_json(summary.as_json())
        else:
            _print_summary(summary)
            if stale := source.stale_dismissals(ledger):
                click.echo(f"note: {stale_note(len(stale))}", err=True)
    return ExitCode.RUN_FAILED if summary.failing(Verdict(fail_on.upper())) else ExitCode.SUCCESS


def _print_summary(summary: VerdictSummary) -> None:
    style = Style.of(sys.stdout)
    paint = style.error if summary.failing() else style.warning if summary.failing(Verdict.WARN) else style.good
    click.echo(paint(sanitize(summary.headline)))
    for gap in summary.gaps:
        click.echo(f"  {sanitize(gap)}")
    if summary.dismissed:
        click.echo("Dismissed findings that would block:")
    for one in summary.dismissed:
        by, note = sanitize(one.by or "unknown"), sanitize(one.note or "no reason given")
        click.echo(f"  #{one.number} {sanitize(one.title)} ({one.severity}, {one.state} by {by}: {note})")
    click.echo(_readiness(summary))


def _readiness(summary: VerdictSummary) -> str:
    """Whether the change can be merged, and what prevents it."""
    if not summary.complete:
        return "Not ready: the review is incomplete"
    if summary.verdicts.shipping is Shipping.SHIP:
        return str(summary.verdicts.readiness)
    unverified = "1 fix is unverified" if summary.claimed == 1 else f"{summary.claimed} fixes are unverified"
    reasons = {
        f"{plural(summary.required, 'finding')} must be fixed": summary.required > 0,
        unverified: summary.claimed > 0,
        "a reviewer rejects the change": summary.verdicts.shipping is Shipping.BLOCK_ON_REJECTION,
    }
    return f"Not ready: {', '.join(reason for reason, applies in reasons.items() if applies)}"
