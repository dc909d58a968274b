"""What a walk is about, what was decided in it, and what follows from that. Nothing here asks or does anything."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipeline.findings.gate import importance, is_confident
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import AutofixClass, Finding, FindingId, Gate, Said, Severity
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


ACTS = (Action.APPLY, Action.DEFER)  # what is validated before it is done in bulk


class Route(StrEnum):
    """How the findings are worked through."""

    EACH = "each"  # one by one
    ALL = "all"  # all at once, as recommended
    MUST = "must"  # what must be fixed, all at once, whatever is recommended
    FILE = "file"  # a ticket for each, and no fix
    REPORT = "report"  # nothing is done


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
    unexplained_by: tuple[str, ...] = ()  # the reviewers, if none of them said what breaks
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
    def with_fix(self) -> Finding | None:
        """The first open member with a proposed fix, the one that is shown before the others; None without any."""
        members = (self.finding, *self.line.others)
        open_ones = [member for member in members if member.state.is_open] or members
        return next((member for member in open_ones if member.fix and member.fix.strip()), None)

    @property
    def advisory(self) -> bool:
        """Whether there is nothing to fix."""
        return all(one.autofix_class is AutofixClass.ADVISORY for one in self.line.open_members or self.line.members)

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


NOT_VALIDATED = Validation(validated=False, reason="validator failed")


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
    route: Route = Route.EACH
    validates: bool = False  # whether a validator is available
    confirms: bool = False  # whether the first ticket for a tracker that was not named needs a confirmation
    seed_wording: bool = False  # whether labels have the words of the original walk-through
    choices: Mapping[FindingId, Choice] = field(default_factory=dict)  # in the order in which they were made
    validations: Mapping[FindingId, Validation] = field(default_factory=dict)
    dropped: Mapping[FindingId, str] = field(default_factory=dict)  # refused by the validator, with the reason
    unvalidated: frozenset[FindingId] = frozenset()  # acted on in bulk although the validator did not look at them
    tickets: tuple[TicketAttempt, ...] = ()
    fixes: Fixes = Fixes()
    safe_fixes: Fixes = Fixes()  # made before the first question: nobody needs to decide on those

    @property
    def remaining(self) -> tuple[WalkItem, ...]:
        """The items that are not decided yet."""
        return tuple(item for item in self.items if item.id not in self.choices)

    @property
    def tracker(self) -> str:
        """The name of the tracker that gets the next ticket."""
        return self.trackers.tracker_name or "the tracker"

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
    tickets = walk.trackers.any_sink_available
    return tuple(route for route in Route if route is not Route.FILE or tickets)


def recommendations(line: Line) -> list[Finding]:
    """Return the open members whose reviewers recommend an action, oldest first."""
    known = set(Action)
    return [finding for finding in line.open_members if finding.action in known]


def recommend(line: Line, trackers: TrackerStatus) -> Action:
    """Return the most conservative action that reviewers recommend, else what the findings themselves suggest."""
    wanted = {Action(finding.action) for finding in recommendations(line)}
    if wanted:
        return min(wanted, key=tuple(Action).index)
    members = line.open_members or line.members
    if all(finding.autofix_class is AutofixClass.ADVISORY for finding in members):
        return Action.ACKNOWLEDGE
    if any(finding.fix and finding.fix.strip() for finding in members):
        return Action.APPLY
    return Action.DEFER if trackers.any_sink_available else Action.SKIP


def available_action(action: Action, item: WalkItem, trackers: TrackerStatus) -> Action:
    """Return the action, or the nearest one that is in the menu of the item."""
    if item.advisory and action is Action.APPLY:
        return Action.ACKNOWLEDGE
    no_tracker = action is Action.DEFER and not trackers.any_sink_available
    nothing_to_read = action is Action.ACKNOWLEDGE and not item.advisory
    return Action.SKIP if no_tracker or nothing_to_read else action


def planned_action(walk: Walk, item: WalkItem) -> Action:
    """Return what is done about an item when all that remain are decided at once."""
    bulk = {Route.FILE: Action.DEFER, Route.MUST: Action.APPLY}
    return available_action(bulk.get(walk.route, item.recommended), item, walk.trackers)


def plan(walk: Walk) -> tuple[tuple[WalkItem, Action], ...]:
    """Return every remaining item with what would be done, without those that the validator refused."""
    dropped = refusals(walk)
    return tuple((item, planned_action(walk, item)) for item in walk.remaining if item.id not in dropped)


def lines_to_validate(walk: Walk) -> tuple[Line, ...]:
    """Return the lines of work to validate before they are acted on: the most severe, up to a limit, each once."""
    acted_on = [item for item in walk.remaining if planned_action(walk, item) in ACTS]
    return tuple(item.line for item in acted_on[:MAX_VALIDATED] if item.id not in walk.validations)


def refusals(walk: Walk) -> dict[FindingId, str]:
    """Return the remaining items that the validator refused, with its reasons.

    A P0 or P1 is not dropped only because the validator did not answer.
    """
    found: dict[FindingId, str] = {}
    for item in walk.remaining:
        result = walk.validations.get(item.id)
        if result is None or result.validated:
            continue
        severe = item.line.severity.rank <= Severity.HIGH.rank
        if result is not NOT_VALIDATED or not severe:
            found[item.id] = result.reason or "no reason given"
    return found


def is_unvalidated(walk: Walk, item: WalkItem) -> bool:
    """Return whether an item is to be acted on that a validator was to look at and did not."""
    result = walk.validations.get(item.id, NOT_VALIDATED)
    return walk.validates and result is NOT_VALIDATED and planned_action(walk, item) in ACTS


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


def must_be_fixed(line: Line) -> bool:
    """Return whether any open member must be fixed."""
    return line.gate is Gate.MUST


def by_level(line: Line) -> tuple[str, tuple[bool, int, int, str, int, int]]:
    """Return a sort key: P0 to P3, then by importance."""
    return P_LEVEL[line.severity], importance(line.lead)


def is_settled(line: Line, run: str) -> bool:
    """Return whether a line was deferred, skipped or acknowledged in a run: it is not asked about again there.

    A member that joined it since was not decided on.
    """
    return bool(run) and all(_settled_in(finding, run) for finding in line.open_members or line.members)


def _settled_in(finding: Finding, run: str) -> bool:
    made = [change.word for change in finding.decisions if change.run == run]
    return bool(made) and made[-1] != Action.APPLY


def last_action(line: Line) -> Action | None:
    """Return what was decided last about a line of work; None if nothing that is known."""
    word = line.decisions[-1].word if line.decisions else ""
    return Action(word) if word in set(Action) else None
