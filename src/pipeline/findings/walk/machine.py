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
    NOT_VALIDATED,
    UNTRACKED,
    Action,
    Route,
    TicketAttempt,
    Turn,
    Walk,
    WalkItem,
    available_action,
    is_unvalidated,
    lines_to_validate,
    plan,
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
    """Look at lines of work before they are acted on in bulk; answered with a `Validation` by the id of each."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """Let one fixer make all accepted fixes; answered with `Fixes`."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Tell:
    """Say what was done just now. It has no answer."""

    text: str


Effect = FileTicket | NextTracker | Validate | Fix | Tell
Steps = Generator[Question | Effect, Any, Walk]


def walk(begun: Walk, route: Route | None = Route.EACH) -> Steps:
    """Walk through all items; without a route, or if it is not possible, the first question is which one to take."""
    now = begun
    while now.items:
        if route not in routes(now):
            route = Route((yield present.ask_route(now)))
        now = replace(now, route=route)
        if route is Route.REPORT:
            break
        if route is Route.EACH:
            now = yield from _one_by_one(now)
            break
        now = yield from _validate(now)
        if (yield present.ask_plan(now)) == Turn.PROCEED:
            now = yield from _carry_out(now)
            break
        route = None  # cancelled: back to the question before
    if now.accepted:
        now = replace(now, fixes=(yield Fix(now.accepted)))
    return now


def _one_by_one(now: Walk) -> Steps:
    """Ask about each item; the rest may be decided at once."""
    while now.remaining:
        item = now.remaining[0]
        answer = yield present.ask_about(now, item)
        if answer == Turn.REST:
            now = yield from _validate(now)
            if (yield present.ask_plan(now)) == Turn.PROCEED:
                return (yield from _carry_out(now))
        elif answer == Action.DEFER:
            now = yield from _defer(now, item)
        else:
            reason = item.skip_reason if answer == Action.SKIP else ""
            now = now.decide(item, Action(answer), reason=reason)
        choice = now.choices.get(item.id)
        if choice and choice.action is not Action.DEFER:
            yield Tell(present.confirmation(item, choice))
    return now


def _defer(now: Walk, item: WalkItem) -> Steps:
    """File a ticket, the first one only after a confirmation if its tracker was not named."""
    if now.confirms and not now.trackers.named:
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
            filed = TicketAttempt(item.id, now.tracker, reference=reference)
            now = replace(now, tickets=(*now.tickets, filed)).decide(item, Action.DEFER, ref=reference)
            yield Tell(present.confirmation(item, now.choices[item.id]))
            return now
        failure = truncate(sanitize_line(result.reason), _MAX_REASON) or "no reason given"
        failed = TicketAttempt(item.id, now.tracker, failure=failure)
        unnamed = replace(now.trackers, named_sink_available=False)
        now = replace(now, trackers=unnamed, tickets=(*now.tickets, failed))
        answer = yield present.ask_failed(now)
        if answer == Turn.CONVERT:
            reason = f"no ticket could be filed: {failure}"
            return _note(now, "converted to Skip").decide(item, Action.SKIP, reason=reason)
        if answer == Turn.RETRY:
            now = _note(now, "retried")
            continue
        trackers = yield NextTracker()
        now = replace(now, trackers=replace(trackers, named_sink_available=False))
        if not trackers.any_sink_available:
            return _note(now, "no other sink")
        now = _note(now, f"fell back to {now.tracker}")


def _note(now: Walk, then: str) -> Walk:
    """Return the walk with what was done after the last failure."""
    return replace(now, tickets=(*now.tickets[:-1], replace(now.tickets[-1], then=then)))


def _validate(now: Walk) -> Steps:
    """Have the remaining items looked at that would be acted on. One without a result was not validated."""
    lines = lines_to_validate(now) if now.validates else ()
    if not lines:
        return now
    results = yield Validate(lines)
    answers = {line.id: results.get(line.id, NOT_VALIDATED) for line in lines}
    return replace(now, validations={**now.validations, **answers})


def _carry_out(now: Walk) -> Steps:
    """Do what was planned about all remaining items, as far as there still is a tracker."""
    planned = plan(now)
    unvalidated = frozenset(item.id for item in now.remaining if is_unvalidated(now, item))
    now = replace(now, dropped=refusals(now), unvalidated=unvalidated)
    for item, wanted in planned:
        action = available_action(wanted, item, now.trackers)
        if action is Action.DEFER:
            now = yield from _file(now, item)
            action = available_action(wanted, item, now.trackers)
        if item.id not in now.choices:
            now = now.decide(item, action, reason=_skip_reason(now, item, wanted) if action is Action.SKIP else "")
    return now


def _skip_reason(now: Walk, item: WalkItem, wanted: Action) -> str:
    """Return why an item is skipped by a plan: it may have lost its tracker."""
    if Action.DEFER in (wanted, item.recommended) and not now.trackers.any_sink_available:
        return UNTRACKED
    return item.skip_reason
