"""The options that the commands about findings share, and the filter they make."""

import gc
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from pipeline.app.findings.ledger import (
    LedgerSnapshot,
    Repository,
    find_repository,
    read_snapshot,
    read_snapshot_from,
    timestamp,
)
from pipeline.app.findings.queries import STATE_GROUPS, FindingFilter, parse_since, parse_states
from pipeline.app.store import NEWEST, find_run
from pipeline.cli.options import settings_or_defaults
from pipeline.cli.store_options import StoreLocation
from pipeline.cli.terminal import sanitize
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import GitHistory
from pipeline.findings.model import Category, FindingId, FindingState, Gate, Severity
from pipeline.findings.triage import StaleReason, find_stale_dismissals

F = TypeVar("F", bound=Callable[..., Any])

run_option = click.option(
    "--run", default="", metavar="RUN", help="Of a cluster: whose findings. [default: the newest's]"
)
repo_option = click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The repository; by default the one around the current directory.",
)
_STATES = (
    *STATE_GROUPS,
    *(str(state).replace("_", "-") for state in FindingState),
    *(str(state) for state in FindingState if "_" in state),
)


def _closed(name: str, given: str, values: Iterable[str], help: str) -> Callable[[F], F]:
    return click.option(name, given, multiple=True, type=click.Choice([str(one) for one in values]), help=help)


_OPTIONS = (
    click.option(
        "--state", "states", multiple=True, type=click.Choice(_STATES), help="In this state, or any of these."
    ),
    _closed("--severity", "severities", Severity, "So grave."),
    _closed("--gate", "gates", Gate, "Whether they must be fixed, or are suggestions."),
    _closed("--category", "categories", Category, "Of this kind."),
    click.option("--file", "files", multiple=True, metavar="PATH", help="The beginning of a path, or a pattern."),
    click.option("--stage", "stages", multiple=True, metavar="STAGE", help="Reported by this stage of a workflow."),
    click.option("--since", metavar="DATE|PASS", help="Raised, seen or changed since then."),
)
stale_option = click.option(
    "--unused", is_flag=True, help="Dismissed, and that is of no use: expired, changed code, or not reported any more."
)


def filter_options(function: F) -> F:
    """The options that say which findings are meant; each may be given several times."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def build_filter(
    ledger: Ledger, usual: frozenset[FindingState], given: dict[str, Any], among: Iterable[FindingId] | None = None
) -> FindingFilter:
    """The filter that options ask for."""
    return FindingFilter(
        among=None if among is None else frozenset(among),
        states=parse_states(given["states"]) if given["states"] else usual,
        severities=frozenset(map(Severity, given["severities"])),
        gates=frozenset(map(Gate, given["gates"])),
        categories=frozenset(map(Category, given["categories"])),
        files=given["files"],
        stages=frozenset(given["stages"]),
        since=parse_since(given["since"], ledger) if given["since"] else None,
    )


def stale_dismissals_in(ledger: Ledger, where: Repository) -> dict[FindingId, tuple[StaleReason, ...]]:
    """The dismissals of no use, and why."""
    return find_stale_dismissals(ledger, GitHistory(where.root, where.environment), timestamp(utc_now()))


def stale_note(count: int) -> str:
    """The line that says so, where there are any."""
    are = "dismissal is" if count == 1 else "dismissals are"
    return f"{count} {are} of no use any more: awf findings list --unused"


def current_repository(repo: Path | None) -> Repository:
    """The repository that is meant."""
    return find_repository(repo, Path.cwd(), os.environ, settings_or_defaults().record_writers)


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def load_snapshot(store: Path, repo: Path | None) -> LedgerSnapshot:
    """The findings of a store as they stand. What was changed in the files and may not be is told beside the output."""
    return _looked(read_snapshot(store, current_repository(repo).root, timestamp(utc_now())))


def load_snapshot_at(where: StoreLocation, run: str, repo: Path | None) -> LedgerSnapshot:
    """The findings as they stand: of a store, or of one run of a cluster, the newest by default."""
    if not where.on:
        return load_snapshot(where.store, repo)
    with where.open() as store:
        journal = store.ledger(find_run(run or NEWEST[0], store.journal.runs()))
        return _looked(read_snapshot_from(journal, current_repository(repo).root, timestamp(utc_now())))


def _looked(found: LedgerSnapshot) -> LedgerSnapshot:
    gc.freeze()  # nothing read goes round in a circle, and there may be very much of it to look through
    print_problems(found.problems)
    return found


def print_problems(problems: tuple[str, ...]) -> None:
    """Tell problems beside the output."""
    for problem in problems:
        click.echo(f"note: {sanitize(problem)}", err=True)
