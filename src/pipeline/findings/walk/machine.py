"""The walk through findings as a state machine: what can be chosen, and what an answer or a result leads to.

It computes values only. A session carries out what a step asks for; texts are in `present`. A walk is kept nowhere:
if it is dropped, every decision is lost, and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Answer, AutofixClass, Decision, Finding, FindingId, Severity, Vote
from pipeline.findings.scales import P_LEVEL
from pipeline.findings.trackers.ticket import Filed, TicketFailed, TrackerStatus
from pipeline.text import sanitize_line, truncate

MAX_VALIDATED = 15  # findings that are checked once more before a bulk apply
UNTRACKED = "no tracker sink available"  # why a finding is skipped that was to get a ticket
_MAX_REASON = 300  # columns of what a tracker says


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


class Reply(StrEnum):
    """What else can be answered."""

    REST = "rest"  # this finding and all that follow, as recommended
    PROCEED = "proceed"
    CANCEL = "cancel"
    RETRY = "retry"  # the same tracker
    FALLBACK = "fallback"  # the next tracker
    CONVERT = "convert"  # a ticket that cannot be filed, into a skip


OptionKey = Action | Route | Reply
"""What an option is known by: answers are keys, never labels. No two keys are the same word."""


class Step(StrEnum):
    """What a walk waits for: an answer to a question, or the result of something that the session does."""

    ROUTING = "routing"  # question: which route to take
    ASKING = "asking"  # question: what to do about the current finding
    CONFIRMING = "confirming"  # question: whether the first ticket may go to a tracker that was not named
    FAILED = "failed"  # question: what to do instead of a ticket that could not be filed
    PREVIEWING = "previewing"  # question: whether the plan may be carried out
    FILING = "filing"  # a ticket for the current finding, then `record_ticket`
    FALLING_BACK = "falling back"  # the next tracker, then `record_fallback`
    VALIDATING = "validating"  # a look at `findings_to_validate`, then `record_validations`
    FIXING = "fixing"  # one fixer for all accepted findings, then `record_fixes`
    DONE = "done"


@dataclass(frozen=True, slots=True)
class WalkItem:
    """One finding to decide on, with its recommendation and what is shown about it."""

    finding: Finding
    recommended: Action
    impact: str = ""
    why_it_works: str = ""
    pointer: str = ""  # where the whole fix can be read
    skip_reason: str = ""  # recorded if a person skips it
    unexplained_by: tuple[str, ...] = ()  # the reviewers, if none of them said what breaks
    same_as: tuple[int, ...] = ()  # the numbers of findings that it may be the same as
    members: tuple[Finding, ...] = ()  # the findings of other reviewers that are joined to it

    @property
    def advisory(self) -> bool:
        """Whether there is nothing to fix."""
        return self.finding.autofix_class is AutofixClass.ADVISORY

    @property
    def level(self) -> str:
        """Its severity, P0 to P3."""
        return P_LEVEL[self.finding.severity]


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
    """What became of the accepted fixes. One that is in neither was not attempted."""

    made: frozenset[FindingId] = frozenset()
    failed: Mapping[FindingId, str] = field(default_factory=dict)  # with the reason
    answers: tuple[Answer, ...] = ()  # of the fixer


@dataclass(frozen=True, slots=True)
class Walk:
    """The state of a walk."""

    items: tuple[WalkItem, ...]
    trackers: TrackerStatus
    ledger: Ledger  # with all findings and passes, for the report
    route: Route = Route.EACH
    validates: bool = False  # whether a validator is available
    confirms: bool = False  # whether the first ticket for a tracker that was not named needs a confirmation
    seed_wording: bool = False  # whether labels have the words of the original walk-through
    step: Step = Step.ASKING
    position: int = 0
    decisions: Mapping[FindingId, Decision] = field(default_factory=dict)  # in the order in which they were made
    validations: Mapping[FindingId, Validation] = field(default_factory=dict)
    dropped: Mapping[FindingId, str] = field(default_factory=dict)  # refused by the validator, with the reason
    unvalidated: frozenset[FindingId] = frozenset()  # acted on in bulk although the validator did not look at them
    plan: tuple[tuple[WalkItem, Action], ...] = ()  # agreed to, and not yet carried out
    tickets: tuple[TicketAttempt, ...] = ()
    fixes: Fixes = Fixes()

    @property
    def item(self) -> WalkItem:
        """The current finding."""
        return self.plan[0][0] if self.plan else self.items[self.position]

    @property
    def remaining(self) -> tuple[WalkItem, ...]:
        """The current finding and those not decided yet."""
        return self.items[self.position :]

    @property
    def tracker(self) -> str:
        """The name of the tracker that gets the next ticket."""
        return self.trackers.tracker_name or "the tracker"

    @property
    def accepted(self) -> tuple[Finding, ...]:
        """The findings whose fixes were accepted, in the order of the walk."""
        chosen = {id for id, decision in self.decisions.items() if decision.action == Action.APPLY}
        return tuple(item.finding for item in self.items if item.finding.id in chosen)


def recommendations(finding: Finding) -> dict[str, Vote]:
    """The last vote with an action of each reviewer, in the order in which they first voted."""
    actions = set(Action)
    return {vote.reviewer: vote for vote in finding.votes if vote.action in actions}


def recommend(finding: Finding, trackers: TrackerStatus) -> Action:
    """Return the most conservative action that reviewers recommend, else what the finding itself suggests."""
    voted = {Action(vote.action) for vote in recommendations(finding).values()}
    if voted:
        return min(voted, key=tuple(Action).index)
    if finding.autofix_class is AutofixClass.ADVISORY:
        return Action.ACKNOWLEDGE
    if finding.fix:
        return Action.APPLY
    return Action.DEFER if trackers.any_sink_available else Action.SKIP


def available_action(action: Action, item: WalkItem, trackers: TrackerStatus) -> Action:
    """Return the action, or the nearest one that is in the finding's menu."""
    if item.advisory and action is Action.APPLY:
        return Action.ACKNOWLEDGE
    no_tracker = action is Action.DEFER and not trackers.any_sink_available
    return Action.SKIP if no_tracker or (action is Action.ACKNOWLEDGE and not item.advisory) else action


def choices(walk: Walk) -> tuple[OptionKey, ...]:
    """Return what can be answered now, in the fixed order of its menu; empty if nothing is asked."""
    tickets = walk.trackers.any_sink_available
    match walk.step:
        case Step.ROUTING:
            return (Route.EACH, Route.ALL, *((Route.FILE,) if tickets else ()), Route.REPORT)
        case Step.ASKING:
            first = Action.ACKNOWLEDGE if walk.item.advisory else Action.APPLY
            rest = (Reply.REST,) if len(walk.items) > 1 else ()
            return (first, *((Action.DEFER,) if tickets else ()), Action.SKIP, *rest)
        case Step.CONFIRMING | Step.PREVIEWING:
            return (Reply.PROCEED, Reply.CANCEL)
        case Step.FAILED:
            return (Reply.RETRY, Reply.FALLBACK, Reply.CONVERT)
        case _:
            return ()


def begin(
    items: tuple[WalkItem, ...],
    trackers: TrackerStatus,
    ledger: Ledger,
    *,
    route: Route | None = Route.EACH,
    validates: bool = False,
    confirms: bool = False,
    seed_wording: bool = False,
) -> Walk:
    """Return a walk at its beginning; without a route it asks for one."""
    walk = Walk(
        items,
        trackers,
        ledger,
        route or Route.EACH,
        validates=validates,
        confirms=confirms,
        seed_wording=seed_wording,
    )
    if not items:
        return replace(walk, step=Step.DONE)
    return replace(walk, step=Step.ROUTING) if route is None else _take_route(walk, route)


def answer(walk: Walk, key: str) -> Walk:
    """Return the walk after an answer, given as the key of an option. Raises AwfError if it is not an option."""
    offered = choices(walk)
    match next((option for option in offered if option == key), None):
        case None:
            expected = f"choose one of {', '.join(offered)}" if offered else "nothing was asked"
            raise AwfError(f'illegal answer "{truncate(sanitize_line(key), 60)}": {expected}')
        case Route() as route:
            return _take_route(walk, route)
        case Action.DEFER:
            confirm = walk.confirms and not walk.trackers.named
            return replace(walk, step=Step.CONFIRMING if confirm else Step.FILING)
        case Action() as action:
            return _decide(walk, action, reason=walk.item.skip_reason if action is Action.SKIP else "")
        case Reply.REST:
            return _preview(walk)
        case Reply.CANCEL:  # back to the question before; what was decided stays decided
            return replace(walk, step=Step.ASKING if walk.route is Route.EACH else Step.ROUTING)
        case Reply.RETRY:
            return replace(_note_failure(walk, "retried"), step=Step.FILING)
        case Reply.FALLBACK:
            return replace(walk, step=Step.FALLING_BACK)
        case Reply.CONVERT:
            reason = f"no ticket could be filed: {walk.tickets[-1].failure}"
            return _decide(_note_failure(walk, "converted to Skip"), Action.SKIP, reason=reason)
        case Reply.PROCEED if walk.step is Step.CONFIRMING:
            return replace(walk, step=Step.FILING, confirms=False)
        case Reply.PROCEED:
            unvalidated = frozenset(item.finding.id for item in walk.remaining if is_unvalidated(walk, item))
            agreed = replace(walk, plan=plan(walk), dropped=refusals(walk), unvalidated=unvalidated)
            return _carry_out(replace(agreed, position=len(walk.items)))


def record_ticket(walk: Walk, result: Filed | TicketFailed) -> Walk:
    """Return the walk after a ticket was filed or failed. After a failure the tracker is not named again."""
    id = walk.item.finding.id
    if isinstance(result, Filed):
        reference = truncate(sanitize_line(result.url), _MAX_REASON)
        attempt = TicketAttempt(id, walk.tracker, reference=reference)
        return _decide(replace(walk, tickets=(*walk.tickets, attempt)), Action.DEFER, ref=reference)
    failure = truncate(sanitize_line(result.reason), _MAX_REASON) or "no reason given"
    trackers = replace(walk.trackers, named_sink_available=False)
    tickets = (*walk.tickets, TicketAttempt(id, walk.tracker, failure=failure))
    return replace(walk, step=Step.FAILED, trackers=trackers, tickets=tickets)


def record_fallback(walk: Walk, trackers: TrackerStatus) -> Walk:
    """Return the walk after a tracker was given up: with the next one, or without tickets if there is none."""
    walk = replace(walk, trackers=replace(trackers, named_sink_available=False))
    if trackers.any_sink_available:
        return replace(_note_failure(walk, f"fell back to {walk.tracker}"), step=Step.FILING)
    walk = _note_failure(walk, "no other sink")
    return _carry_out(walk) if walk.plan else replace(walk, step=Step.ASKING)


def record_validations(walk: Walk, results: Mapping[FindingId, Validation]) -> Walk:
    """Return the walk after validation. A finding without a result was not validated."""
    answers = {finding.id: results.get(finding.id, NOT_VALIDATED) for finding in findings_to_validate(walk)}
    return replace(walk, step=Step.PREVIEWING, validations={**walk.validations, **answers})


def record_fixes(walk: Walk, fixes: Fixes) -> Walk:
    """Return the walk after the fixer."""
    return replace(walk, step=Step.DONE, fixes=fixes)


def plan(walk: Walk) -> tuple[tuple[WalkItem, Action], ...]:
    """Every remaining finding with the action that would be taken, without those that the validator refused."""
    dropped = refusals(walk)
    return tuple((item, _planned_action(walk, item)) for item in walk.remaining if item.finding.id not in dropped)


def findings_to_validate(walk: Walk) -> tuple[Finding, ...]:
    """The findings to validate before they are acted on: the most severe, up to a limit."""
    acting = (Action.APPLY, Action.DEFER)
    acted_on = [item.finding for item in walk.remaining if _planned_action(walk, item) in acting]
    return tuple(finding for finding in acted_on[:MAX_VALIDATED] if finding.id not in walk.validations)


def refusals(walk: Walk) -> dict[FindingId, str]:
    """The remaining findings that the validator refused, with its reasons.

    A P0 or P1 is not dropped only because the validator did not answer.
    """
    found: dict[FindingId, str] = {}
    for item in walk.remaining:
        result = walk.validations.get(item.finding.id)
        severe = item.finding.severity.rank <= Severity.HIGH.rank
        if result and not result.validated and not (result is NOT_VALIDATED and severe):
            found[item.finding.id] = result.reason or "no reason given"
    return found


def is_unvalidated(walk: Walk, item: WalkItem) -> bool:
    """Whether a finding is to be acted on that a validator was to look at and did not."""
    acting = _planned_action(walk, item) in (Action.APPLY, Action.DEFER)
    result = walk.validations.get(item.finding.id, NOT_VALIDATED)
    return walk.validates and acting and result is NOT_VALIDATED


def _take_route(walk: Walk, route: Route) -> Walk:
    if route is Route.FILE and not walk.trackers.any_sink_available:
        return replace(walk, step=Step.ROUTING)
    walk = replace(walk, route=route)
    if route is Route.EACH:
        return replace(walk, step=Step.ASKING)
    return replace(walk, step=Step.DONE) if route is Route.REPORT else _preview(walk)


def _preview(walk: Walk) -> Walk:
    validate = walk.validates and findings_to_validate(walk)
    return replace(walk, step=Step.VALIDATING if validate else Step.PREVIEWING)


def _note_failure(walk: Walk, then: str) -> Walk:
    return replace(walk, tickets=(*walk.tickets[:-1], replace(walk.tickets[-1], then=then)))


def _decide(walk: Walk, action: Action, *, reason: str = "", ref: str = "") -> Walk:
    """Return the walk with a decision on the current finding, at the next one."""
    decision = Decision(at="", action=action, reason=reason, ref=ref)  # the session adds when and by whom
    decided = replace(walk, decisions={**walk.decisions, walk.item.finding.id: decision})
    if walk.plan:
        return _carry_out(replace(decided, plan=walk.plan[1:]))
    decided = replace(decided, position=walk.position + 1, step=Step.ASKING)
    return decided if decided.remaining else _carry_out(decided)


def _carry_out(walk: Walk) -> Walk:
    """Return the walk with its plan carried out up to the next ticket; after the last, the fixer is due."""
    decisions = dict(walk.decisions)
    for done, (item, planned) in enumerate(walk.plan):
        action = available_action(planned, item, walk.trackers)
        if action is Action.DEFER:
            return replace(walk, decisions=decisions, plan=walk.plan[done:], step=Step.FILING)
        wanted_ticket = Action.DEFER in (planned, item.recommended) and not walk.trackers.any_sink_available
        reason = UNTRACKED if wanted_ticket else item.skip_reason
        decisions[item.finding.id] = Decision(at="", action=action, reason=reason if action is Action.SKIP else "")
    walk = replace(walk, decisions=decisions, plan=())
    return replace(walk, step=Step.FIXING if walk.accepted else Step.DONE)


def _planned_action(walk: Walk, item: WalkItem) -> Action:
    bulk = {Route.FILE: Action.DEFER, Route.MUST: Action.APPLY}
    return available_action(bulk.get(walk.route, item.recommended), item, walk.trackers)
