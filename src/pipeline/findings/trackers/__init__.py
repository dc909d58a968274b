"""Where deferred findings become tickets: the tracker that was named, then the others in order."""

from collections.abc import Mapping
from types import MappingProxyType

from pipeline.errors import AwfError
from pipeline.findings.lines import Line
from pipeline.findings.trackers.folder import TicketFolder
from pipeline.findings.trackers.github import open_github
from pipeline.findings.trackers.ticket import (
    NO_TRACKER,
    VALID_ID,
    Filed,
    OpenTracker,
    TicketFailed,
    Tracker,
    TrackerContext,
    TrackerStatus,
)
from pipeline.text import did_you_mean

TRACKERS: Mapping[str, OpenTracker] = MappingProxyType({"github": open_github, "folder": TicketFolder})


def all_trackers(contributed: Mapping[str, OpenTracker]) -> dict[str, OpenTracker]:
    """Return all trackers, those of plugins first: the folder always works, so nothing after it is ever tried."""
    return {**contributed, **TRACKERS, **contributed}


class TrackerChain:
    """The trackers of one session. Each is opened at most once, and none before a ticket may be filed.

    A tracker that is named must work: its tickets do not belong anywhere else.
    """

    def __init__(
        self, context: TrackerContext, named: str = "", trackers: Mapping[str, OpenTracker] = TRACKERS
    ) -> None:
        if named and named not in trackers:
            help = did_you_mean(named, trackers) or f"choose one of {', '.join(trackers)}"
            raise AwfError(f'unknown tracker "{named}"', help=help)
        order = sorted(trackers, key=lambda name: name != named)  # the others stay in order
        self._untried = [trackers[name] for name in order]
        self._context = context
        self._name = named
        self._named_works = bool(named)
        self._current: Tracker | None = None

    def status(self) -> TrackerStatus:
        """Return which tracker is in use; the first call looks for one."""
        current = self._tracker()
        return TrackerStatus(current.name, self._named_works) if current else NO_TRACKER

    def file(self, line: Line) -> Filed | TicketFailed:
        """File a ticket with the tracker in use. The caller decides what to do after a failure."""
        if not VALID_ID.fullmatch(line.id):
            return TicketFailed(f"{line.id!a} is not a valid finding id")
        current = self._tracker()
        if current is None:
            return TicketFailed("no tracker is available")
        result = current.file(line)
        if isinstance(result, TicketFailed):
            self._named_works = False
        return result

    def fall_back(self) -> None:
        """Give up the tracker in use for this session; the next one that works takes its place."""
        self._tracker()
        self._current, self._named_works = None, False

    def _tracker(self) -> Tracker | None:
        while self._current is None and self._untried:
            opened = self._untried.pop(0)(self._context)
            if not isinstance(opened, TicketFailed):
                self._current = opened
            elif self._named_works:  # the named one is the first
                help = "use another with --tracker NAME, or leave the option out for the first that works"
                raise AwfError(f'the tracker "{self._name}" cannot be used: {opened.reason}', help=help)
        return self._current
