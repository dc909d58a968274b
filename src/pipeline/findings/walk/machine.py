"""The walk as a state machine: what comes next, and what an answer makes of it. It looks at values only.

Tickets are the only thing done on the way; fixes are asked for once, at the end, all together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pipeline.errors import AwfError
from pipeline.findings.events import DecisionMade, LedgerEvent
from pipeline.findings.model import Decision, Finding, FindingId
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, TrackerStatus
from pipeline.findings.walk import planning
from pipeline.findings.walk.present import (
    GO_OR_NOT,
    Action,
    Block,
    Fixes,
    Item,
    Option,
    OptionKey,
    Route,
    Step,
    Trouble,
    Validation,
    Walk,
    WalkContext,
    WalkDecision,
    block,
    failed_menu,
    menu,
    one_line,
    preview,
    preview_stem,
    routing_question,
    stem,
)
from pipeline.findings.walk.report import WalkReport, report, skipped_because


@dataclass(frozen=True, slots=True)
class Question:
    """Something for a person to decide: what is shown above it, the question, and what can be chosen."""

    stem: str
    options: tuple[Option, ...]
    above: Block | str = ""


@dataclass(frozen=True, slots=True)
class File:
    """A ticket is to be made on a tracker; `filed` takes what came of it."""

    finding: Finding
    tracker: str


@dataclass(frozen=True, slots=True)
class FallBack:
    """A tracker is to be given up for this session; `fell_back` takes what is known of the others."""

    reason: str


@dataclass(frozen=True, slots=True)
class Validate:
    """Somebody is to look whether these hold; `validated` takes what they say."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One fixer is to make all accepted fixes; `dispatched` takes what came of it."""

    ids: tuple[FindingId, ...]


@dataclass(frozen=True, slots=True)
class WalkDone:
    """Nothing is left to ask or do."""

    report: WalkReport


Next = Question | File | FallBack | Validate | Dispatch | WalkDone


_REASON = 300  # characters of what a tracker says


class IllegalAnswer(AwfError):
    """What was answered is none of the options, or nothing was asked."""


def begin(
    items: tuple[Item, ...],
    sinks: TrackerStatus = NO_TRACKER,
    around: WalkContext | None = None,
    *,
    route: Route | None = Route.EACH,
    validates: bool = False,
    confirms: bool = False,
) -> Walk:
    """A walk at its beginning; without a route it asks for one."""
    about = around or WalkContext(tuple(item.finding for item in items))
    walk = Walk(items, about, sinks, route or Route.EACH, validates=validates, confirms=confirms)
    if not items:
        return replace(walk, step=Step.OVER)
    return replace(walk, step=Step.ROUTING) if route is None else _taken(walk, route)


def ask(walk: Walk) -> Next:
    """What comes next."""
    match walk.step:
        case Step.FILING:
            return File(walk.item.finding, walk.tracker)
        case Step.FALLING_BACK:
            return FallBack(walk.troubles[-1].reason)
        case Step.VALIDATING:
            return Validate(planning.unjudged(walk))
        case Step.FIXING:
            return Dispatch(walk.accepted)
        case Step.OVER:
            return WalkDone(report(walk))
        case _:
            return _question(walk)


def answer(walk: Walk, key: str) -> Walk:
    """The walk after an answer, given by the key of an option."""
    asked = ask(walk)
    keys = [option.key for option in asked.options] if isinstance(asked, Question) else []
    if key not in keys:
        expected = f"expected one of {', '.join(keys)}" if keys else "nothing was asked"
        raise IllegalAnswer(f'"{one_line(key, 60)}" is no answer here: {expected}')
    match walk.step:
        case Step.ROUTING:
            return _taken(walk, Route(key))
        case Step.ASKING:
            return _answered(walk, OptionKey(key))
        case Step.CONFIRMING:
            return replace(walk, step=Step.FILING, confirms=False) if key == OptionKey.PROCEED else _back(walk)
        case Step.PREVIEWING:
            return _carried_out(_agreed(walk)) if key == OptionKey.PROCEED else _back(walk)
        case _:
            return _recovered(walk, OptionKey(key))


def filed(walk: Walk, result: Filed | TicketFailed) -> Walk:
    """The walk after a ticket was made, or not: then it stays where it is, and trusts its trackers less."""
    if isinstance(result, Filed):
        return _decided(walk, WalkDecision(Action.DEFER, reference=one_line(result.url, _REASON), tracker=walk.tracker))
    trouble = Trouble(walk.item.finding.id, walk.tracker, one_line(result.reason, _REASON) or "no reason given")
    sinks = replace(walk.sinks, named_sink_available=False)
    return replace(walk, step=Step.FAILED, sinks=sinks, troubles=(*walk.troubles, trouble))


def fell_back(walk: Walk, sinks: TrackerStatus) -> Walk:
    """The walk after a tracker was given up: with the next one, or, where there is none, without tickets."""
    left = replace(walk, sinks=replace(sinks, named_sink_available=False))
    if sinks.any_sink_available:
        return replace(_then(left, f"fell back to {left.tracker}"), step=Step.FILING)
    stuck = _then(left, "no other sink")
    return _carried_out(stuck) if walk.plan else replace(stuck, step=Step.ASKING)


def validated(walk: Walk, told: Mapping[FindingId, Validation]) -> Walk:
    """The walk after somebody looked at what is left. Of what they were asked and did not answer, nothing is known."""
    answers = {finding.id: told.get(finding.id) or planning.UNANSWERED for finding in planning.unjudged(walk)}
    return replace(walk, step=Step.PREVIEWING, judged={**walk.judged, **answers})


def dispatched(walk: Walk, fixes: Fixes) -> Walk:
    """The walk after the fixer."""
    return replace(walk, step=Step.OVER, fixes=fixes)


def decisions(walk: Walk, at: str, by: str) -> list[LedgerEvent]:
    """What was decided, for the ledger. A walk that is not over has decided nothing."""
    if walk.step is not Step.OVER:
        return []
    return [
        DecisionMade(
            at=at, id=id, decision=Decision(at=at, action=made.action, by=by, reason=made.reason, ref=made.reference)
        )
        for id, made in walk.decided.items()
    ]


def _question(walk: Walk) -> Question:
    number, total, item, sinks = walk.position + 1, len(walk.items), walk.item, walk.sinks
    match walk.step:
        case Step.ROUTING:
            return Question(*routing_question(total, sinks))
        case Step.CONFIRMING:
            return Question(f"This files a ticket on {walk.tracker}. Proceed?", GO_OR_NOT)
        case Step.FAILED:
            trouble = walk.troubles[-1]
            told = f"Defer failed: {trouble.tracker} returned {trouble.reason.rstrip('.')}."
            return Question(f"{told} How should the agent handle this finding?", failed_menu(trouble.tracker))
        case Step.PREVIEWING:
            dropped = planning.refused(walk)
            items = {one.finding.id: one for one in walk.remaining if one.finding.id in dropped}
            shown = preview(planning.plan(walk), sinks, walk.route, len(walk.decided), items)
            return Question(preview_stem(walk.route), GO_OR_NOT, shown)
        case _:
            options = menu(total, sinks, item.recommended, advisory=item.advisory)
            return Question(stem(item, number, total, sinks), options, block(item, number, total, sinks))


def _taken(walk: Walk, route: Route) -> Walk:
    """The walk on one of the ways through the findings; where tickets cannot be filed, that is no way."""
    if route is Route.FILE and not walk.sinks.any_sink_available:
        return replace(walk, step=Step.ROUTING)
    chosen = replace(walk, route=route)
    match route:
        case Route.EACH:
            return replace(chosen, step=Step.ASKING)
        case Route.REPORT:
            return replace(chosen, step=Step.OVER)
        case _:
            return _all_at_once(chosen)


def _answered(walk: Walk, key: OptionKey) -> Walk:
    match key:
        case OptionKey.REST:
            return _all_at_once(walk)
        case OptionKey.DEFER:
            asks = walk.confirms and not walk.sinks.named
            return replace(walk, step=Step.CONFIRMING if asks else Step.FILING)
        case OptionKey.SKIP:
            return _decided(walk, WalkDecision(Action.SKIP, skipped_because(walk.item)))
        case _:
            return _decided(walk, WalkDecision(Action(key)))


def _recovered(walk: Walk, key: OptionKey) -> Walk:
    """The walk after a person said what to do instead of a ticket that could not be made."""
    if key is OptionKey.RETRY:
        return replace(_then(walk, "retried"), step=Step.FILING)
    if key is OptionKey.FALLBACK:
        return replace(walk, step=Step.FALLING_BACK)
    failure = walk.troubles[-1].reason
    return _decided(_then(walk, "converted to Skip"), WalkDecision(Action.SKIP, f"no ticket could be made: {failure}"))


def _then(walk: Walk, what: str) -> Walk:
    return replace(walk, troubles=(*walk.troubles[:-1], replace(walk.troubles[-1], then=what)))


def _all_at_once(walk: Walk) -> Walk:
    waits = walk.validates and planning.unjudged(walk)
    return replace(walk, step=Step.VALIDATING if waits else Step.PREVIEWING)


def _back(walk: Walk) -> Walk:
    """The walk where it was before; what was decided stays decided."""
    return replace(walk, step=Step.ASKING if walk.route is Route.EACH else Step.ROUTING)


def _agreed(walk: Walk) -> Walk:
    dropped = planning.refused(walk)
    return replace(walk, plan=planning.plan(walk), dropped=dropped, position=len(walk.items))


def _decided(walk: Walk, made: WalkDecision) -> Walk:
    """The walk after a decision on the finding that was the matter."""
    noted = replace(walk, decided={**walk.decided, walk.item.finding.id: made})
    if walk.plan:
        return _carried_out(replace(noted, plan=walk.plan[1:]))
    on = replace(noted, position=walk.position + 1, step=Step.ASKING)
    return on if on.position < len(on.items) else _carried_out(on)


def _carried_out(walk: Walk) -> Walk:
    """The walk with its plan carried out up to the next ticket; at its end the fixer is due."""
    made: dict[FindingId, WalkDecision] = {}
    for done, (item, action) in enumerate(walk.plan):
        decision = planning.settled(item, action, walk.sinks)
        if decision.action is Action.DEFER:
            return replace(walk, decided={**walk.decided, **made}, plan=walk.plan[done:], step=Step.FILING)
        made[item.finding.id] = decision
    over = replace(walk, decided={**walk.decided, **made}, plan=())
    return replace(over, step=Step.FIXING if over.accepted else Step.OVER)
