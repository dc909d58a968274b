"""Where findings that are put off become tickets: one module for each tracker, and the order they are tried in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pipeline.findings.trackers.folder import TicketFolder
from pipeline.findings.trackers.github import Gh, GitHubIssues, find_repository
from pipeline.findings.trackers.ticket import TicketFailed, Tracker
from pipeline.redaction import redactor_of


@dataclass(frozen=True, slots=True)
class TrackerContext:
    """Where tickets are made from."""

    root: Path  # of the repository
    store: Path
    environ: Mapping[str, str]
    folder: Path | None = None  # of tickets that are files; in the store by default


OpenTracker = Callable[[TrackerContext], Tracker | TicketFailed]
"""Gives a tracker that can be used here, or says why it cannot."""


def open_github(place: TrackerContext) -> Tracker | TicketFailed:
    """Issues of the repository that a remote names, where gh is logged in to its host."""
    repository = find_repository(place.root, place.environ)
    if not repository:
        return TicketFailed("no remote of this repository is on GitHub")
    gh = Gh(place.root, place.environ)
    reply = gh.run("auth", "status", f"--hostname={repository.partition('/')[0]}")
    if reply.failure:
        return TicketFailed(f"gh cannot be used: {reply.failure}")
    return GitHubIssues(gh, repository, redactor_of(place.environ).text)


def open_folder(place: TrackerContext) -> Tracker | TicketFailed:
    """Files in a directory; that it cannot be written is told when it is."""
    return TicketFolder(place.folder or place.store / "tickets", redactor_of(place.environ).text)


TRACKERS: Mapping[str, OpenTracker] = MappingProxyType({"github": open_github, "folder": open_folder})
"""In the order in which they are tried."""


def all_trackers(brought: Mapping[str, OpenTracker]) -> dict[str, OpenTracker]:
    """All trackers, those of plugins before ours: a folder can always be used, and nothing after it is tried."""
    return {**brought, **TRACKERS, **brought}
