"""What a walk is about, what was decided in it, and what follows from that. Nothing here asks or does anything."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipeline.findings.gate import importance, is_confident
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import AutofixClass, Finding, FindingId, Said
from pipeline.findings.scales import P_LEVEL
from pipeline.findings.trackers.ticket import TrackerStatus

MAX_VALIDATED = 15  # lines of work that are checked once more before a bulk apply
UNTRACKED = "no tracker sink available"  # why a finding is skipped that was to get a ticket


class Action(StrEnum):
    """What can be done about a finding, most conservative first: that order breaks ties between reviewers."""

    SKIP = "skip"  # nothing is done, and it stays open
    DEFER = "defer"  # a ticket is filed
    APPLY = "apply"  # the fixer gets it
    ACKNOWLEDGE = "acknowledge"  # it was read; there is nothing to fix


class Route(StrEnum):
    """How the findings are worked through."""

    EACH = "each"  # one by one
    ALL = "all"  # all at once, as recommended
    MUST = "must"  # what must be fixed, all at once, whatever is recommended
    FILE = "file"  # a ticket for each, and no fix
    REPORT = "report"  # nothing is done
    ASK = "ask"  # a person says which


class Turn(StrEnum):
    """What else can be answered."""

    REST = "rest"  # this finding and all that follow, as recommended
    PROCEED = "proceed"
    CANCEL = "cancel"
    RETRY = "retry"  # the same tracker
    FALLBACK = "fallback"  # the next tracker
    CONVERT = "convert"  # a ticket that cannot be filed, into a skip


@dataclass(frozen=True, slots=True)
class WalkItem:
    """One line of work to decide on, with its recommendation and what is shown about it."""

    line: Line
    recommended: Action
    impact: str = ""
    why_it_works: str = ""
    pointer: str = ""  # where the whole fix can be read
    skip_reason: str = ""  # recorded if a person skips it
    same_as: tuple[int, ...] = ()  # the numbers of findings that it may be the same as

    @property
    def id(self) -> FindingId:
        """The id of the line."""
        return self.line.id

    @property
    def finding(self) -> Finding:
        """The member that is shown."""
        return self.line.lead

    @property
    def advisory(self) -> bool:
        """Whether there is nothing to fix."""
        return is_advice(self.line)

    @property
    def unexplained_by(self) -> tuple[str, ...]:
        """The reviewers, if none of them said what breaks."""
        return () if self.impact else self.line.reviewers

    @property
    def level(self) -> str:
        """Its severity, P0 to P3."""
        return P_LEVEL[self.line.severity]


@dataclass(frozen=True, slots=True)
class Choice:
    """What was decided about a line of work; it counts for all its open members."""

    action: Action
    reason: str = ""
    ref: str = ""  # the ticket


@dataclass(frozen=True, slots=True)
class TicketAttempt:
    """A ticket that was to be filed: its reference, or why it failed and what was done then."""

    id: FindingId
    tracker: str
    reference: str = ""
    failure: str = ""
    then: str = ""


@dataclass(frozen=True, slots=True)
class Validation:
    """What a validator says about one finding."""

    validated: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fixes:
    """What became of the accepted fixes, by the ids of their lines. One that is in neither was not attempted."""

    made: frozenset[FindingId] = frozenset()
    failed: Mapping[FindingId, str] = field(default_factory=dict)  # with the reason
    said: tuple[Said, ...] = ()  # by the fixer


@dataclass(frozen=True, slots=True)
class Walk:
    """The state of a walk, and what it came to."""

    items: tuple[WalkItem, ...]
    trackers: TrackerStatus
    ledger: Ledger  # with all findings and passes, for the report
    route: Route = Route.EACH  # the one that was asked for, then the one that was taken
    validates: bool = False  # whether a validator is available
    confirms: bool = False  # whether the first ticket for a tracker that was not named needs a confirmation
    seed_wording: bool = False  # whether labels have the words of the original walk-through
    choices: Mapping[FindingId, Choice] = field(default_factory=dict)  # in the order in which they were made
    validations: Mapping[FindingId, Validation] = field(default_factory=dict)  # those that were given
    dropped: Mapping[FindingId, str] = field(default_factory=dict)  # refused by the validator, with the reason
    unvalidated: frozenset[FindingId] = frozenset()  # acted on in bulk although the validator did not look at them
    tickets: tuple[TicketAttempt, ...] = ()
    fixes: Fixes = Fixes()
    safe_fixes: Fixes = Fixes()  # made before the first question: nobody needs to decide on those

    @property
    def remaining(self) -> tuple[WalkItem, ...]:
        """The items about which nothing is decided yet."""
        return tuple(item for item in self.items if item.id not in self.choices and item.id not in self.dropped)

    @property
    def accepted(self) -> tuple[Line, ...]:
        """The lines of work whose fixes were accepted, in the order of the walk."""
        chosen = {id for id, choice in self.choices.items() if choice.action is Action.APPLY}
        return tuple(item.line for item in self.items if item.id in chosen)

    @property
    def failed_fixes(self) -> dict[FindingId, str]:
        """The safe fixes and the accepted ones that failed, with the reasons, in the order in which they were tried."""
        accepted = {line.id: self.fixes.failed[line.id] for line in self.accepted if line.id in self.fixes.failed}
        return {**self.safe_fixes.failed, **accepted}

    def decide(self, item: WalkItem, action: Action, *, reason: str = "", ref: str = "") -> "Walk":
        """Return the walk with a decision."""
        return replace(self, choices={**self.choices, item.id: Choice(action, reason, ref)})


def routes(walk: Walk) -> tuple[Route, ...]:
    """Return the routes that are possible; what must be fixed is no option of the question."""
    if walk.trackers.available:
        return (Route.EACH, Route.ALL, Route.MUST, Route.FILE, Route.REPORT)
    return (Route.EACH, Route.ALL, Route.MUST, Route.REPORT)


def recommendations(line: Line) -> list[Finding]:
    """Return the open members whose reviewers recommend an action, oldest first."""
    return [finding for finding in line.open_members if finding.action]


def recommend(line: Line, trackers: TrackerStatus) -> Action:
    """Return the most conservative action that reviewers recommend, else what the findings themselves suggest."""
    wanted = [Action(finding.action) for finding in recommendations(line)]
    if wanted:
        return min(wanted, key=list(Action).index)
    if is_advice(line):
        return Action.ACKNOWLEDGE
    if proposed_fix(line):
        return Action.APPLY
    return Action.DEFER if trackers.available else Action.SKIP


def is_advice(line: Line) -> bool:
    """Return whether there is nothing to fix."""
    return all(finding.autofix_class is AutofixClass.ADVISORY for finding in line.open_members)


def proposed_fix(line: Line) -> Finding | None:
    """Return the first open member with a proposed fix, the one that is shown before the others; None without any."""
    members = (one for one in (line.lead, *line.others) if one.state.is_open)
    return next((member for member in members if member.fix and member.fix.strip()), None)


def menu(item: WalkItem, trackers: TrackerStatus) -> list[Action]:
    """Return what can be done about an item, in the order of the options."""
    first = Action.ACKNOWLEDGE if item.advisory else Action.APPLY
    return [first, Action.DEFER, Action.SKIP] if trackers.available else [first, Action.SKIP]


def available_action(action: Action, item: WalkItem, trackers: TrackerStatus) -> Action:
    """Return the action, or the nearest one that is in the menu of the item."""
    if action in menu(item, trackers):
        return action
    return Action.ACKNOWLEDGE if action is Action.APPLY else Action.SKIP


def planned_action(walk: Walk, item: WalkItem) -> Action:
    """Return what is done about an item when all that remain are decided at once."""
    bulk = {Route.FILE: Action.DEFER, Route.MUST: Action.APPLY}
    return available_action(bulk.get(walk.route, item.recommended), item, walk.trackers)


def lost_its_tracker(walk: Walk, item: WalkItem) -> bool:
    """Return whether a ticket was to be filed for an item, and there is no tracker."""
    wanted = walk.route is Route.FILE or item.recommended is Action.DEFER
    return wanted and not walk.trackers.available


def plan(walk: Walk) -> tuple[tuple[WalkItem, Action], ...]:
    """Return every remaining item with what would be done, without those that the validator refused."""
    dropped = refusals(walk)
    return tuple((item, planned_action(walk, item)) for item in walk.remaining if item.id not in dropped)


def refusals(walk: Walk) -> dict[FindingId, str]:
    """Return the remaining items that the validator refused, with its reasons. Its silence refuses nothing."""
    said = {item.id: walk.validations[item.id] for item in walk.remaining if item.id in walk.validations}
    return {id: result.reason or "no reason given" for id, result in said.items() if not result.validated}


def is_acted_on(walk: Walk, item: WalkItem) -> bool:
    """Return whether a plan means a fix or a ticket for an item: then it is validated before."""
    return planned_action(walk, item) in (Action.APPLY, Action.DEFER)


def is_unvalidated(walk: Walk, item: WalkItem) -> bool:
    """Return whether an item is acted on of which the validator was to say something, and has said nothing."""
    return walk.validates and item.id not in walk.validations and is_acted_on(walk, item)


def pending_lines(lines: Iterable[Line], *, advisory: bool = False) -> list[Line]:
    """Return the lines of work that need a decision, most severe first; advice only if asked for."""
    classes = {AutofixClass.GATED_AUTO, AutofixClass.MANUAL} | ({AutofixClass.ADVISORY} if advisory else set())
    found = [line for line in lines if any(one.autofix_class in classes for one in actionable(line))]
    return sorted(found, key=by_level)


def safe_lines(lines: Iterable[Line]) -> list[Line]:
    """Return the lines of work that are fixed without a decision."""
    return [line for line in lines if is_safe(actionable(line))]


def is_safe(findings: Sequence[Finding]) -> bool:
    """Return whether there are findings, and all of them can be fixed without a decision."""
    return bool(findings) and all(one.autofix_class is AutofixClass.SAFE_AUTO for one in findings)


def actionable(line: Line) -> list[Finding]:
    """Return the members that something can be done about: active, of this change, and sure enough."""
    active = [one for one in line.members if one.state.active and not one.pre_existing]
    return [one for one in active if is_confident(one.severity, one.confidence)]


def by_level(line: Line) -> tuple[int, tuple[bool, int, int, str, int, int]]:
    """Return a sort key: by severity, then by importance."""
    return line.severity.rank, importance(line.lead)


def is_settled(line: Line, run: str) -> bool:
    """Return whether a line was deferred, skipped or acknowledged in a run: it is not asked about again there.

    A member that joined it since was not decided on.
    """
    made = [[change.word for change in finding.decisions if change.run == run] for finding in line.open_members]
    return all(words and words[-1] != Action.APPLY for words in made)


def last_action(line: Line) -> Action | None:
    """Return what was decided last about a line of work; None if nothing was."""
    return Action(line.decisions[-1].word) if line.decisions else None
