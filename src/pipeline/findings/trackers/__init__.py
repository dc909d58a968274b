"""Where deferred findings become tickets: the trackers by name, in the order in which they are tried."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pipeline.findings.trackers.folder import TicketFolder
from pipeline.findings.trackers.github import Gh, GhError, GitHubIssues, find_repository
from pipeline.findings.trackers.ticket import TicketFailed, Tracker
from pipeline.redaction import redactor_of


@dataclass(frozen=True, slots=True)
class TrackerContext:
    """Where tickets are filed from."""

    root: Path  # of the repository
    store: Path
    environ: Mapping[str, str]


OpenTracker = Callable[[TrackerContext], Tracker | TicketFailed]
"""Returns a tracker that can be used here, or why it cannot. It files nothing and writes nothing."""


def open_github(context: TrackerContext) -> Tracker | TicketFailed:
    """Use the issues of the repository that a remote names, if gh is logged in to its host."""
    repository = find_repository(context.root, context.environ)
    if not repository:
        return TicketFailed("no remote of this repository is on GitHub")
    gh = Gh(context.root, context.environ)
    try:
        gh.run("auth", "status", f"--hostname={repository.partition('/')[0]}")
    except GhError as error:
        return TicketFailed(f"gh cannot be used: {error}")
    return GitHubIssues(gh, repository, redactor_of(context.environ).text)


def open_folder(context: TrackerContext) -> Tracker:
    """Use files in the store; a directory that cannot be written is reported when a ticket is filed."""
    return TicketFolder(context.store / "tickets", redactor_of(context.environ).text)


TRACKERS: Mapping[str, OpenTracker] = MappingProxyType({"github": open_github, "folder": open_folder})


def all_trackers(contributed: Mapping[str, OpenTracker]) -> dict[str, OpenTracker]:
    """Return all trackers, those of plugins first: the folder always works, so nothing after it is ever tried."""
    return {**contributed, **TRACKERS, **contributed}
