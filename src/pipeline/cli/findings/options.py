"""The options that the findings commands share: which ledger, which findings."""

import gc
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from pipeline.app.findings.ledger import (
    LedgerSnapshot,
    Repository,
    find_repository,
    read_snapshot,
    timestamp,
    with_view_edits,
)
from pipeline.app.findings.queries import STATE_GROUPS, FindingFilter, parse_since, parse_states
from pipeline.app.run_names import NEWEST, find_run
from pipeline.cli.location import settings_paths
from pipeline.cli.options import settings_or_defaults, store_option
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import sanitize
from pipeline.errors import AwfError
from pipeline.findings.git import GitRefusedError, TreeSnapshots, changed_names, is_tree, pathspecs
from pipeline.findings.ledger import Ledger, LedgerStore
from pipeline.findings.lines import Line
from pipeline.findings.model import Category, FindingId, FindingState, Gate, Severity
from pipeline.findings.places import follow_renames
from pipeline.findings.reviews import Review
from pipeline.findings.triage import StaleReason, find_stale_dismissals
from pipeline.text import plural

F = TypeVar("F", bound=Callable[..., Any])

_repo_option = click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The repository. [default: the one around the current directory]",
)
stale_option = click.option("--unused", is_flag=True, help="Only stale dismissals: of code that has changed.")
_run_option = click.option("--run", default="", metavar="RUN", help="The run; on a cluster the newest by default.")
_STATES = (
    *STATE_GROUPS,
    *(str(state).replace("_", "-") for state in FindingState),
    *(str(state) for state in FindingState if "_" in state),
)


def _choice_option(name: str, parameter: str, values: Iterable[str], help: str) -> Callable[[F], F]:
    return click.option(name, parameter, multiple=True, type=click.Choice([str(one) for one in values]), help=help)


severity_option = _choice_option("--severity", "severities", Severity, "Only this severity.")
file_option = click.option(
    "--file", "files", multiple=True, metavar="PATH", help="Only paths with this prefix or pattern."
)
_FILTERS = (
    _choice_option("--state", "states", _STATES, "Only this state."),
    severity_option,
    _choice_option("--gate", "gates", Gate, "Only findings that must be fixed, or only suggestions."),
    _choice_option("--category", "categories", Category, "Only this category."),
    file_option,
    click.option("--stage", "stages", multiple=True, metavar="STAGE", help="Only findings reported by this stage."),
    click.option("--since", metavar="DATE|PASS", help="Only findings raised, reported or changed since then."),
)


def filter_options(command: F) -> F:
    """Give a command the options that select findings; each may be repeated."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


def build_filter(
    ledger: Ledger, default: frozenset[FindingState], given: dict[str, Any], among: Iterable[FindingId] | None = None
) -> FindingFilter:
    """The filter for the values of `filter_options`."""
    return FindingFilter(
        among=None if among is None else frozenset(among),
        states=parse_states(given["states"]) if given["states"] else default,
        severities=frozenset(map(Severity, given["severities"])),
        gates=frozenset(map(Gate, given["gates"])),
        categories=frozenset(map(Category, given["categories"])),
        files=given["files"],
        stages=frozenset(given["stages"]),
        since=parse_since(given["since"], ledger) if given["since"] else None,
    )


@dataclass(frozen=True)
class FindingsSource:
    """The ledger that a command works with: that of a store, or of one run on a cluster."""

    where: StoreLocation
    run: str = ""
    repo: Path | None = None

    @property
    def store(self) -> Path:
        """The directory of the store."""
        return self.where.store

    @cached_property
    def repository(self) -> Repository:
        """The given repository, or the one around the current directory."""
        set_up = settings_paths().exist  # without a file, the settings need not be imported
        trusted = settings_or_defaults().record_writers if set_up else ()
        return find_repository(self.repo, Path.cwd(), os.environ, trusted)

    def snapshot(self) -> LedgerSnapshot:
        """All findings as of now, and the edits in view files that do not count."""
        gc.disable()  # a ledger has no cycles; looking for them doubles the time to read 100,000 findings
        root, at = self.repository.root, timestamp(utc_now())
        if not self.where.on:
            return read_snapshot(self.store, root, at)
        with self.where.open() as store:
            journal = store.ledger(find_run(self.run or NEWEST[0], store.journal.runs()))
            return with_view_edits(LedgerStore(journal).ledger(), root, self.store, at)

    def run_id(self) -> str:
        """The run that was asked for; empty for all, and on a cluster, where the ledger is that of one run."""
        if not self.run or self.where.on:
            return ""
        with self.where.open() as store:
            return find_run(self.run, store.journal.runs())

    def read(self) -> Ledger:
        """All findings as of now. Edits in view files that do not count are printed as notes."""
        snapshot = self.snapshot()
        print_problems(snapshot.problems)
        return snapshot.ledger

    def current_lines(self, lines: Sequence[Line], ledger: Ledger) -> tuple[Line, ...]:
        """Return lines of work with the files as they are called now."""
        return follow_renames(lines, ledger, self.repository.root, self.repository.environment)

    def changed_since(self, last: Review) -> int | None:
        """Return how many files differ from those that were looked at last; None if git cannot tell."""
        repository, tree = self.repository, last.passed.tree if last.passed else ""
        if not is_tree(tree):
            return None if last.passed and repository.head else 0
        root, environ = repository.root, repository.environment
        try:
            now = TreeSnapshots(environ, self.store).tree(root)
            return len(changed_names(root, environ, tree, now, pathspecs()))
        except GitRefusedError:
            return None

    def stale_dismissals(self, ledger: Ledger) -> dict[FindingId, dict[StaleReason, str]]:
        """The dismissed findings whose dismissal is stale as of now, and why."""
        return find_stale_dismissals(ledger, self.repository.root, self.repository.environment)


def source_options(command: F) -> F:
    """Give a command the options that name a ledger to read; it receives them as `source`."""

    @wraps(command)
    def call(*given: Any, where: StoreLocation, run: str, repo: Path | None, **more: Any) -> Any:
        return command(*given, source=FindingsSource(where, run, repo), **more)

    return store_location_options(_run_option(_repo_option(call)))  # type: ignore[return-value]  # click gives it the arguments


def local_source_options(command: F) -> F:
    """Give a command the options that name a ledger to add to, which is on this machine."""

    @wraps(command)
    def call(*given: Any, store: Path, repo: Path | None, **more: Any) -> Any:
        return command(*given, source=FindingsSource(StoreLocation(store), repo=repo), **more)

    return store_option(_repo_option(call))  # type: ignore[return-value]  # click gives it the arguments


def stale_note(count: int) -> str:
    """One line that says how many dismissals are stale."""
    return f"{plural(count, 'stale dismissal')}: awf findings list --unused"


def require_person(verb: str) -> None:
    """Refuse in a stage: an agent could hide a finding behind another one, or confirm its own fix."""
    if stage := os.environ.get("AWF_STAGE"):
        raise AwfError(f'stage "{stage}" of a run cannot {verb} findings', help="run this outside of the run")


def utc_now() -> datetime:
    """The current time."""
    return datetime.now(UTC)


def print_problems(problems: tuple[str, ...]) -> None:
    """Print notes on standard error."""
    for problem in problems:
        click.echo(f"note: {sanitize(problem)}", err=True)


def changed_text(changed: int | None) -> str:
    """Return that files changed since somebody looked, or that nobody knows; empty if none did."""
    if changed is None:
        return "git cannot tell whether files changed since anybody looked: awf review"
    return f"{plural(changed, 'file')} changed since anybody looked: awf review" if changed else ""
