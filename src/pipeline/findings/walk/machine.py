"""The walk through lines of work: a generator that yields questions and effects, and is sent answers and results.

It does nothing itself. A `Question` is answered with the key of an option; what each effect is answered with is said
there. What it returns is all that was decided. A walk is kept nowhere: if it is dropped, every decision is lost, and
nothing else.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from pipeline.findings.lines import Line
from pipeline.findings.trackers.ticket import Filed
from pipeline.findings.walk import present
from pipeline.findings.walk.state import (
    MAX_VALIDATED,
    UNTRACKED,
    Action,
    Route,
    TicketAttempt,
    Turn,
    Walk,
    WalkItem,
    is_acted_on,
    is_unvalidated,
    lost_its_tracker,
    planned_action,
    refusals,
    routes,
)
from pipeline.handlers.questions import Question
from pipeline.text import sanitize_line, truncate

_MAX_REASON = 300  # columns of what a tracker says


@dataclass(frozen=True, slots=True)
class FileTicket:
    """File a ticket with the tracker in use; answered with `Filed` or `TicketFailed`."""

    line: Line


@dataclass(frozen=True, slots=True)
class NextTracker:
    """Give up the tracker in use; answered with the `TrackerStatus` of the next."""


@dataclass(frozen=True, slots=True)
class Validate:
    """Look at lines of work before they are acted on in bulk; answered with a `Validation` by id where there is one."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Tell:
    """Say what was done just now. It has no answer."""

    text: str


Effect = FileTicket | NextTracker | Validate | Tell
Steps = Generator[Question | Effect, Any, Walk]


def walk(now: Walk) -> Steps:
    """Walk through all items. If the route is to be asked for, or is not possible, that is the first question."""
    while now.remaining and now.route is not Route.REPORT:
        if now.route not in routes(now):
            now = replace(now, route=Route((yield present.ask_route(now))))
        elif now.route is Route.EACH:
            now = yield from _one_by_one(now)
        else:
            now = yield from _all_at_once(now)
            if now.remaining:  # cancelled: back to the question before
                now = replace(now, route=Route.ASK)
    return now


def _one_by_one(now: Walk) -> Steps:
    """Ask about each item; the rest may be decided at once."""
    while now.remaining:
        item = now.remaining[0]
        answer = yield present.ask_about(now, item)
        if answer == Turn.REST:
            now = yield from _all_at_once(now)
        elif answer == Action.DEFER:
            now = yield from _defer(now, item)
        else:
            now = _decide(now, item, Action(answer))
            yield Tell(present.confirmation(item, now.choices[item.id]))
    return now


def _decide(now: Walk, item: WalkItem, action: Action) -> Walk:
    """Decide about an item, with the reason if it is skipped."""
    if action is not Action.SKIP:
        return now.decide(item, action)
    return now.decide(item, action, reason=UNTRACKED if lost_its_tracker(now, item) else item.skip_reason)


def _defer(now: Walk, item: WalkItem) -> Steps:
    """File a ticket, the first one only after a confirmation if its tracker was not named."""
    if now.confirms and not now.trackers.certain:
        if (yield present.ask_tracker(now)) == Turn.CANCEL:
            return now
        now = replace(now, confirms=False)
    return (yield from _file(now, item))


def _file(now: Walk, item: WalkItem) -> Steps:
    """File a ticket. After a failure a person says what next; without any tracker left the item stays undecided."""
    while True:
        result = yield FileTicket(item.line)
        if isinstance(result, Filed):
            reference = truncate(sanitize_line(result.url), _MAX_REASON)
            filed = TicketAttempt(item.id, now.trackers.name, reference=reference)
            now = replace(now, tickets=(*now.tickets, filed)).decide(item, Action.DEFER, ref=reference)
            yield Tell(present.confirmation(item, now.choices[item.id]))
            return now
        failure = truncate(sanitize_line(result.reason), _MAX_REASON) or "no reason given"
        failed = TicketAttempt(item.id, now.trackers.name, failure=failure)
        now = replace(now, trackers=replace(now.trackers, certain=False), tickets=(*now.tickets, failed))
        answer = yield present.ask_failed(now)
        if answer == Turn.CONVERT:
            reason = f"no ticket could be filed: {failure}"
            return _note(now, "converted to Skip").decide(item, Action.SKIP, reason=reason)
        if answer == Turn.RETRY:
            now = _note(now, "retried")
            continue
        now = replace(now, trackers=(yield NextTracker()))
        if not now.trackers.available:
            return _note(now, "no other sink")
        now = _note(now, f"fell back to {now.trackers.name}")


def _note(now: Walk, then: str) -> Walk:
    """Return the walk with what was done after the last failure."""
    return replace(now, tickets=(*now.tickets[:-1], replace(now.tickets[-1], then=then)))


def _all_at_once(now: Walk) -> Steps:
    """Have the remaining items validated, show what would be done about them, and do it unless a person cancels."""
    acted_on = [item for item in now.remaining if is_acted_on(now, item)]
    # Of twenty, the most severe fifteen are validated. After Cancel nobody is asked again about those with an answer.
    lines = tuple(item.line for item in acted_on[:MAX_VALIDATED] if is_unvalidated(now, item))
    if lines:
        now = replace(now, validations={**now.validations, **(yield Validate(lines))})
    if (yield present.ask_plan(now)) == Turn.CANCEL:
        return now
    unvalidated = frozenset(item.id for item in now.remaining if is_unvalidated(now, item))
    now = replace(now, dropped=refusals(now), unvalidated=unvalidated)
    for item in now.remaining:
        action = planned_action(now, item)
        if action is Action.DEFER:
            now = yield from _file(now, item)
            action = planned_action(now, item)  # without any tracker left it is skipped
        if item.id not in now.choices:
            now = _decide(now, item, action)
    return now
