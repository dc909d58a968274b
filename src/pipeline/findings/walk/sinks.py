"""Where tickets can go. What is offered and how it is called follows from this alone; nothing here files one."""

from dataclasses import dataclass
from typing import Literal, Protocol

from pipeline.findings.model import Finding


@dataclass(frozen=True, slots=True)
class Filed:
    """A ticket was made. The url may be any reference by which people find it."""

    url: str


@dataclass(frozen=True, slots=True)
class TicketFailed:
    """No ticket was made, and why: in the tracker's words."""

    reason: str


class Tracker(Protocol):
    """Makes tickets."""

    @property
    def name(self) -> str:
        """What people call it, such as `Linear` or `GitHub Issues`."""

    def file(self, finding: Finding) -> Filed | TicketFailed:
        """Make a ticket for a finding. It says what went wrong instead of raising it."""


class Trackers(Tracker, Protocol):
    """The trackers of one session, used one after the other: as a tracker, it is the one in use."""

    def sinks(self) -> "Sinks":
        """What is known of them by now."""

    def fall_back(self, reason: str) -> bool:
        """Give the one in use up; whether there is another."""


@dataclass(frozen=True, slots=True)
class Sinks:
    """What is known of the trackers: looked up once, and only ever found to be less than was thought."""

    tracker_name: str = ""
    confidence: Literal["high", "low"] = "low"  # that the named tracker is the one the project uses
    named_sink_available: bool = False
    any_sink_available: bool = False

    @property
    def named(self) -> str:
        """The tracker's name where it may be told; nothing where a label should be general."""
        sure = self.any_sink_available and self.named_sink_available and self.confidence == "high"
        return self.tracker_name if sure else ""


NO_SINKS = Sinks()
