"""Which tracker a ticket goes to: the one that was named, then the others in order. Each is looked at once at most.

A tracker that was given up is not gone back to in the same session. Nothing is looked at before a ticket is to be made.
"""

from collections.abc import Mapping

from pipeline.errors import AwfError
from pipeline.findings.model import Finding
from pipeline.findings.trackers import TRACKERS, OpenTracker, TrackerContext
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, Tracker, TrackerStatus, unfit
from pipeline.text import did_you_mean


class Chain:
    """The trackers of one session. It is a tracker itself: the one that is in use."""

    def __init__(self, place: TrackerContext, named: str = "", trackers: Mapping[str, OpenTracker] = TRACKERS) -> None:
        if named and named not in trackers:
            help = did_you_mean(named, trackers) or f"the trackers are {', '.join(trackers)}"
            raise AwfError(f'there is no tracker "{named}"', help=help)
        order = sorted(trackers, key=lambda name: name != named)  # the others stay in order
        self._untried = [(name, trackers[name]) for name in order]
        self._place = place
        self._named = named
        self._named_works = bool(named)
        self._current: Tracker | None = None
        self.failures: dict[str, str] = {}  # why each that was passed over or given up cannot be used

    @property
    def name(self) -> str:
        """What the tracker in use is called; nothing when there is none."""
        current = self._tracker()
        return current.name if current else ""

    def sinks(self) -> TrackerStatus:
        """What is known of the trackers by now; the first call looks for one."""
        current = self._tracker()
        if current is None:
            return NO_TRACKER
        return TrackerStatus(
            tracker_name=current.name,
            confidence="high" if self._named else "low",
            named_sink_available=self._named_works,
            any_sink_available=True,
        )

    def file(self, finding: Finding) -> Filed | TicketFailed:
        """Make a ticket with the tracker in use. What to do after a failure is for the caller to say."""
        if reason := unfit(finding):
            return TicketFailed(reason)
        current = self._tracker()
        if current is None:
            return TicketFailed("there is no tracker that can be used")
        done = current.file(finding)
        if isinstance(done, TicketFailed):
            self._named_works = False
        return done

    def fall_back(self, reason: str) -> bool:
        """Give the tracker in use up for this session; whether there is another."""
        if current := self._tracker():
            self.failures[current.name] = reason
        self._current, self._named_works = None, False
        return self._tracker() is not None

    def _tracker(self) -> Tracker | None:
        while self._current is None and self._untried:
            name, open_tracker = self._untried.pop(0)
            opened = open_tracker(self._place)
            if isinstance(opened, TicketFailed):
                self.failures[name] = opened.reason
                self._named_works = False  # the one that was named is the first
            else:
                self._current = opened
        return self._current
