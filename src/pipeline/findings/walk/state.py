"""A walk through findings as a value: what was decided so far, where it stands, and what it is about.

It is kept nowhere: whoever lets go of it has lost every decision, and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.passes import Coverage, Disposition
from pipeline.findings.walk.advice import Action
from pipeline.findings.walk.entry import Item
from pipeline.findings.walk.sinks import NO_SINKS, Sinks

_NOT_SHOWN = (Disposition.SUPPRESSED, Disposition.FILTERED)


class Route(StrEnum):
    """How the findings are gone through."""

    EACH = "each"  # one by one
    ALL = "all"  # all at once, as recommended
    FILE = "file"  # a ticket for each, and no fix
    REPORT = "report"  # nothing is done


class Step(StrEnum):
    """What a walk waits for."""

    ROUTING = "routing"  # which way to go
    ASKING = "asking"  # what to do about the finding at its position
    CONFIRMING = "confirming"  # that the first ticket may go to a tracker whose name was not told
    FILING = "filing"  # a ticket
    FAILED = "failed"  # what to do instead of a ticket that could not be made
    FALLING_BACK = "falling back"  # the next tracker
    VALIDATING = "validating"  # whether what is left holds
    PREVIEWING = "previewing"  # that a plan may be carried out
    FIXING = "fixing"  # the fixer
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Made:
    """A decision on one finding."""

    action: Action
    reason: str = ""
    reference: str = ""  # of the ticket
    tracker: str = ""
    unsunk: bool = False  # skipped for want of a tracker


@dataclass(frozen=True, slots=True)
class Trouble:
    """A ticket that could not be made, and what was done then."""

    id: FindingId
    tracker: str
    reason: str
    then: str = ""


@dataclass(frozen=True, slots=True)
class Validation:
    """What a validator says of one finding."""

    validated: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fixes:
    """What became of the accepted fixes. One that is in neither was not tried."""

    made: frozenset[FindingId] = frozenset()
    failed: Mapping[FindingId, str] = field(default_factory=dict)  # and why


@dataclass(frozen=True, slots=True)
class Around:
    """What a report tells beside the findings that were gone through."""

    findings: tuple[Finding, ...] = ()  # all that stand, gone through or not
    coverage: Coverage | None = None  # of the last pass
    suppressed: int = 0  # items of the last pass that nobody is shown
    reviewed: bool = True  # whether there was a pass at all


@dataclass(frozen=True, slots=True)
class Walk:
    """Where a walk through some findings stands."""

    items: tuple[Item, ...]
    around: Around
    sinks: Sinks = NO_SINKS
    route: Route = Route.EACH
    validates: bool = False  # whether somebody can be asked if findings hold
    confirms: bool = False  # whether the first ticket for a tracker that was not named needs a word
    step: Step = Step.ASKING
    position: int = 0
    decided: Mapping[FindingId, Made] = field(default_factory=dict)  # in the order in which it was
    judged: Mapping[FindingId, Validation] = field(default_factory=dict)
    dropped: Mapping[FindingId, str] = field(default_factory=dict)  # refused by the validator, and why
    plan: tuple[tuple[Item, Action], ...] = ()  # agreed to, and not yet carried out
    troubles: tuple[Trouble, ...] = ()
    fixes: Fixes = Fixes()

    @property
    def item(self) -> Item:
        """The finding that is the matter now."""
        return self.plan[0][0] if self.plan else self.items[self.position]

    @property
    def tracker(self) -> str:
        """The tracker that gets the next ticket."""
        return self.sinks.tracker_name or "the tracker"

    @property
    def remaining(self) -> tuple[Item, ...]:
        """What is not decided, with the finding that is the matter now."""
        return self.items[self.position :]

    @property
    def accepted(self) -> tuple[FindingId, ...]:
        """The findings whose fixes were accepted, in the order of the walk."""
        chosen = {id for id, made in self.decided.items() if made.action is Action.APPLY}
        return tuple(item.finding.id for item in self.items if item.finding.id in chosen)


def around(ledger: Ledger) -> Around:
    """What a ledger says about the findings that are gone through."""
    last = ledger.last
    hidden = sum(entry.disposition in _NOT_SHOWN for entry in last.entries) if last else 0
    return Around(tuple(ledger), ledger.coverage(), hidden, last is not None)
