"""What is to be done about everything that is left, when a person leaves it to what is recommended."""

from pipeline.findings.model import Finding, FindingId, Severity
from pipeline.findings.trackers.ticket import TrackerStatus
from pipeline.findings.walk.present import Action, Item, Route, Validation, Walk, WalkDecision, offered_action
from pipeline.findings.walk.report import skipped_because

CAP = 15  # findings that are looked at once more
UNANSWERED = Validation(validated=False, reason="validator failed")
_ACTS = (Action.APPLY, Action.DEFER)  # what is not done on anybody's word


def plan(walk: Walk) -> tuple[tuple[Item, Action], ...]:
    """Every finding that is left, with what is to be done about it, but for those that were refused."""
    without = refused(walk)
    return tuple((item, _action(item, walk)) for item in walk.remaining if item.finding.id not in without)


def unjudged(walk: Walk) -> tuple[Finding, ...]:
    """The findings that somebody should look at before they are acted on: the gravest, and not too many."""
    acted = [item.finding for item in walk.remaining if _action(item, walk) in _ACTS]
    return tuple(finding for finding in acted[:CAP] if finding.id not in walk.judged)


def refused(walk: Walk) -> dict[FindingId, str]:
    """The findings that do not hold, and why. A grave one is not dropped because nobody answered."""
    told = {item.finding.id: walk.judged.get(item.finding.id) for item in walk.remaining}
    grave = {item.finding.id for item in walk.remaining if item.finding.severity.rank <= Severity.HIGH.rank}
    return {
        id: said.reason or "no reason given"
        for id, said in told.items()
        if said and not said.validated and not (said is UNANSWERED and id in grave)
    }


def settled(item: Item, planned: Action, sinks: TrackerStatus) -> WalkDecision:
    """A decision as planned; where a ticket was planned and there is no tracker, to skip it."""
    action = offered_action(planned, sinks, advisory=item.advisory)
    if action is not Action.SKIP:
        return WalkDecision(action)
    unsunk = Action.DEFER in (planned, item.recommended) and not sinks.any_sink_available
    return WalkDecision(action, "no tracker sink available" if unsunk else skipped_because(item), unsunk=unsunk)


def _action(item: Item, walk: Walk) -> Action:
    wanted = Action.DEFER if walk.route is Route.FILE else item.recommended
    return offered_action(wanted, walk.sinks, advisory=item.advisory)
