"""The walk as a generator: what can be chosen, what every answer leads to, and which effects it asks for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.walk.builders import (
    AT,
    ISSUES,
    LINEAR,
    Drive,
    advisory,
    ask,
    finding,
    finish,
    items,
    joined,
    ledger_of,
    line,
    recommending,
    walk_of,
)

from pipeline.findings.lines import Line
from pipeline.findings.model import Actor, AutofixClass, Finding, FindingState, Location, Severity, What
from pipeline.findings.scales import confidence_from_anchor
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, TrackerStatus
from pipeline.findings.walk.machine import FileTicket, NextTracker, Tell, Validate, walk
from pipeline.findings.walk.report import render_report, report_data
from pipeline.findings.walk.session import decision_events
from pipeline.findings.walk.state import (
    Action,
    Fixes,
    Route,
    Turn,
    Validation,
    available_action,
    is_settled,
    pending_lines,
    recommend,
    recommendations,
    safe_lines,
)
from pipeline.handlers.questions import Question

ONE, TWO, THREE = finding(1), finding(2), finding(3)
NO_FIX = finding(4, fix=None, severity=Severity.LOW)
REFUSED = Validation(validated=False, reason="handled in the caller")
ALL_TRACKERS = st.builds(TrackerStatus, st.sampled_from(("", "Linear")), st.booleans())


def failing(*reasons: str) -> Callable[[Line], Filed | TicketFailed]:
    """A tracker that fails with these reasons, and then works."""
    left = list(reasons)
    return lambda one: TicketFailed(left.pop(0)) if left else Filed(f"T-{one.number}")


def position(question: Question) -> str:
    """Which of how many findings a question is about."""
    return question.text.partition(" — ")[0]


def test_severity_comes_first_then_confidence_then_location() -> None:
    """The order is P0 to P3, then anchor descending, file and line."""
    found = [
        finding(1, severity=Severity.LOW),
        finding(2, locations=(Location(path="b.py", start=9),)),
        finding(3, locations=(Location(path="a.py", start=9),)),
        finding(4, locations=(Location(path="a.py", start=2),)),
        finding(5, confidence=confidence_from_anchor(75), locations=()),
        finding(6, severity=Severity.CRITICAL),
        finding(7, severity=Severity.MEDIUM),
    ]
    assert [one.number for one in pending_lines(map(line, found))] == [6, 4, 3, 2, 5, 7, 1]


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"severity": Severity.CRITICAL, "confidence": confidence_from_anchor(50)}, True),
        ({"severity": Severity.CRITICAL, "confidence": confidence_from_anchor(25)}, False),
        ({"severity": Severity.HIGH, "confidence": confidence_from_anchor(50)}, False),
        ({"severity": Severity.LOW, "confidence": confidence_from_anchor(75)}, True),
        ({"autofix_class": AutofixClass.SAFE_AUTO}, False),
        ({"autofix_class": AutofixClass.MANUAL}, True),
        ({"autofix_class": AutofixClass.ADVISORY}, False),
        ({"pre_existing": True}, False),
        *(({"state": state}, state.active) for state in FindingState),
    ],
)
def test_only_open_findings_of_this_change_that_need_a_decision(changes: dict[str, Any], *, asked: bool) -> None:
    """Gated and manual findings that passed the confidence gate are asked about; advice only on request."""
    assert bool(pending_lines([line(finding(**changes))])) is asked
    assert pending_lines([line(advisory())], advisory=True)


def test_a_line_of_work_is_asked_about_if_one_member_needs_a_decision() -> None:
    """And it is fixed without one only if no member does."""
    safe = finding(2, autofix_class=AutofixClass.SAFE_AUTO)
    mixed = [line(safe, ONE), line(advisory(2), ONE)]
    assert [len(pending_lines([one])) for one in mixed] == [1, 1]
    assert safe_lines([*mixed, line(safe)]) == [line(safe)]


@pytest.mark.parametrize(
    ("actions", "winner"),
    [
        (("apply", "defer"), Action.DEFER),
        (("apply", "skip"), Action.SKIP),
        (("skip", "defer"), Action.SKIP),
        (("acknowledge", "apply"), Action.APPLY),
        (("apply", "apply"), Action.APPLY),
        (("apply", ""), Action.APPLY),
    ],
)
def test_the_most_conservative_action_breaks_a_tie(actions: tuple[str, ...], winner: Action) -> None:
    """Skip wins over Defer, Defer over Apply, Apply over Acknowledge, in whatever order they were reported."""
    assert recommend(line(*recommending(*actions)), LINEAR) is winner
    assert recommend(line(*recommending(*actions[::-1])), LINEAR) is winner


def test_who_is_no_longer_open_recommends_nothing() -> None:
    """A member that is fixed or dismissed has no say."""
    first, second = recommending("skip", "apply")
    found = line(replace(first, state=FindingState.FALSE_POSITIVE), second)
    assert [one.reviewer for one in recommendations(found)] == ["b"]


@pytest.mark.parametrize(
    ("one", "trackers", "action"),
    [
        (finding(), LINEAR, Action.APPLY),
        (finding(autofix_class=AutofixClass.MANUAL), NO_TRACKER, Action.APPLY),
        (finding(fix=None), ISSUES, Action.DEFER),
        (finding(fix=None), NO_TRACKER, Action.SKIP),
        (advisory(), LINEAR, Action.ACKNOWLEDGE),
        (advisory(fix="Do it."), LINEAR, Action.ACKNOWLEDGE),
    ],
)
def test_without_a_recommendation_the_finding_itself_suggests_an_action(
    one: Finding, trackers: TrackerStatus, action: Action
) -> None:
    """A fix is applied, advice acknowledged; without a fix a ticket is filed, if there is a tracker."""
    assert recommend(line(one), trackers) is action


@pytest.mark.parametrize(
    ("one", "action", "trackers", "offered"),
    [
        (advisory(), Action.APPLY, LINEAR, Action.ACKNOWLEDGE),
        (finding(), Action.ACKNOWLEDGE, LINEAR, Action.SKIP),
        (finding(), Action.DEFER, NO_TRACKER, Action.SKIP),
        (advisory(), Action.DEFER, NO_TRACKER, Action.SKIP),
        (advisory(), Action.DEFER, ISSUES, Action.DEFER),
        (finding(), Action.APPLY, NO_TRACKER, Action.APPLY),
    ],
)
def test_an_action_outside_the_menu_becomes_the_nearest_inside(
    one: Finding, action: Action, trackers: TrackerStatus, offered: Action
) -> None:
    """So that the recommended mark is always on an option that is shown."""
    assert available_action(action, items(one)[0], trackers) is offered


@given(st.integers(1, 9), ALL_TRACKERS, st.sampled_from(Action), st.booleans())
def test_exactly_one_option_is_recommended(
    total: int,
    trackers: TrackerStatus,
    action: Action,
    is_advisory: bool,  # noqa: FBT001 - drawn
) -> None:
    """Whatever is recommended; Acknowledge is offered instead of Apply for advice, and nowhere else."""
    make = advisory if is_advisory else finding
    begun = walk_of(*(make(number, action=action) for number in range(1, total + 1)), trackers=trackers)
    options = ask(begun).options
    assert sum(option.recommended for option in options) == 1
    assert sum(option.approves for option in options) == 1
    assert options[0].key == ("acknowledge" if is_advisory else "apply")
    assert ("defer" in [option.key for option in options]) is trackers.available


def test_a_walk_without_a_route_asks_for_one() -> None:
    """The first route leads to the first finding."""
    begun = walk_of(ONE, TWO)
    assert ask(begun, route=Route.ASK).keys == ("each", "all", "file", "report")
    assert position(ask(begun, "each", route=Route.ASK)) == "Finding 1 of 2"


def test_the_last_of_many_still_has_the_rest() -> None:
    """It is not a single finding."""
    assert ask(walk_of(ONE, TWO), "skip").keys == ("apply", "defer", "skip", "rest")
    assert ask(walk_of(ONE)).keys == ("apply", "defer", "skip")


def test_an_applied_fix_waits_for_the_end() -> None:
    """The next finding is asked about, and no fixer runs."""
    drive = Drive()
    asked = ask(walk_of(ONE, TWO), "apply", drive=drive)
    assert (position(asked), drive.fixed) == ("Finding 2 of 2", [])


@pytest.mark.parametrize("key", ["acknowledge", "skip"])
def test_acknowledge_and_skip_have_no_side_effect(key: str) -> None:
    """They are recorded, and nothing is filed or fixed."""
    drive = Drive()
    done = finish(walk_of(advisory(1), advisory(2)), key, key, drive=drive)
    assert [choice.action for choice in done.choices.values()] == [key, key]
    assert (drive.filed, drive.fixed) == ([], [])


def test_a_ticket_is_filed_at_once() -> None:
    """Before the next finding, with its reference kept."""
    drive = Drive()
    begun = walk_of(ONE, TWO, trackers=LINEAR)
    assert position(ask(begun, "defer", drive=drive)) == "Finding 2 of 2"
    assert drive.filed == [1]
    assert finish(begun, "defer", "skip").choices[ONE.id].ref == "T-1"


def test_another_action_than_the_recommended_can_be_chosen() -> None:
    """Any option of the menu."""
    begun = walk_of(finding(action="skip"), trackers=NO_TRACKER)
    assert ask(begun).keys == ("apply", "skip")
    assert finish(begun, "apply").accepted == (line(finding(action="skip")),)


def test_a_decision_counts_for_all_open_members() -> None:
    """The ledger learns of all at the end: one change for each member, which stays in its state."""
    members = joined(ONE, finding(2, reviewer="security"), finding(3, state=FindingState.VERIFIED_FIXED))
    drive = Drive(tickets=lambda _one: Filed("task 7 of this session"))
    done = finish(walk_of(*members), "defer", drive=drive)
    events = decision_events(done, AT, who="anna", by=Actor.USER, run="r")
    made = [(event.id, event.change.what, event.change.word, event.change.ref) for event in events]
    assert made == [(one.id, What.DECISION, "defer", "task 7 of this session") for one in members[:2]]
    assert {(event.at, event.change.who, event.change.run) for event in events} == {(AT, "anna", "r")}
    assert "#1, #2" in drive.told[0]
    ledger = ledger_of(*members)
    for event in events:
        ledger.apply(event)
    decided = ledger.line(ONE.id)
    assert decided.state is FindingState.OPEN
    assert len(decided.decisions) == 1
    assert is_settled(decided, "r")


def test_who_joins_later_was_not_decided_on() -> None:
    """The line of work is asked about again."""
    ledger = ledger_of(ONE)
    done = finish(walk_of(ledger=ledger), "skip")
    later = ledger.extended(decision_events(done, AT, who="anna", by=Actor.USER, run="r"))
    later.findings[TWO.id] = replace(TWO, line=ONE.id)
    later._members[ONE.id][TWO.id] = None
    assert not is_settled(later.line(ONE.id), "r")


def test_one_fixer_gets_fixes_of_every_class() -> None:
    """Gated and manual findings in one queue, after the last answer; without accepted fixes there is none."""
    drive = Drive()
    finish(walk_of(ONE, finding(2, autofix_class=AutofixClass.MANUAL)), "apply", "apply", drive=drive)
    assert drive.fixed == [[1, 2]]
    drive = Drive()
    finish(walk_of(ONE, TWO), "skip", "defer", drive=drive)
    assert drive.fixed == []


def test_the_position_stays_and_the_tracker_is_not_named_again() -> None:
    """The sub-question is about the same finding, and so is the next one if there is no tracker left."""
    begun = walk_of(ONE, TWO, trackers=LINEAR)
    drive = Drive(tickets=failing("HTTP 503.", "HTTP 503."))
    assert ask(begun, "defer", drive=drive).keys == ("retry", "fallback", "convert")
    asked = ask(begun, "defer", "convert", drive=Drive(tickets=failing("HTTP 503.")))
    assert asked.options[1].label == "Defer — file a ticket"


def test_a_retry_may_succeed_or_fail_again() -> None:
    """On the same tracker; every failure is kept with what was done then."""
    drive = Drive(tickets=failing("busy", "gone"))
    done = finish(walk_of(ONE, trackers=LINEAR), "defer", "retry", "retry", drive=drive)
    assert [(one.failure, one.then) for one in done.tickets] == [("busy", "retried"), ("gone", "retried"), ("", "")]
    assert drive.filed == [1, 1, 1]
    assert done.choices[ONE.id].action is Action.DEFER


def test_the_next_tracker_takes_over() -> None:
    """For this finding and for those that follow."""
    drive = Drive(tickets=failing("busy"), trackers=[ISSUES])
    done = finish(walk_of(ONE, TWO, trackers=LINEAR), "defer", "fallback", "defer", drive=drive)
    assert [(one.id, one.tracker) for one in done.tickets] == [
        (ONE.id, "Linear"),
        (ONE.id, "GitHub Issues"),
        (TWO.id, "GitHub Issues"),
    ]
    assert done.tickets[0].then.endswith("GitHub Issues")


def test_without_another_tracker_nothing_can_be_deferred() -> None:
    """The same finding is asked about again, now without tickets."""
    begun = walk_of(ONE, TWO, trackers=LINEAR)
    asked = ask(begun, "defer", "fallback", drive=Drive(tickets=failing("busy")))
    assert (position(asked), asked.keys) == ("Finding 1 of 2", ("apply", "skip", "rest"))


def test_a_failure_can_be_converted_to_a_skip() -> None:
    """The walk continues, and the failure is in the report."""
    done = finish(walk_of(ONE, trackers=LINEAR), "defer", "convert", drive=Drive(tickets=failing("no rights")))
    report = report_data(done)
    assert report["counts"]["skipped"] == 1
    assert "no rights" in report["findings"][0]["note"]
    assert (report["failures"][0]["tracker"], report["failures"][0]["then"]) == ("Linear", "converted to Skip")


def test_a_plan_that_loses_its_tracker_skips_the_rest() -> None:
    """A ticket that fails in a plan is asked about; without a tracker what was to be deferred is skipped."""
    others = [finding(number, fix=None) for number in (5, 6)]
    drive = Drive(tickets=failing("down"))
    done = finish(walk_of(NO_FIX, *others), "rest", "proceed", "fallback", drive=drive)
    assert [choice.action for choice in done.choices.values()] == ["skip"] * 3
    tickets = report_data(done)["tickets"]
    assert (len(tickets["failed"]), len(tickets["no_sink"])) == (1, 2)


def test_the_first_ticket_for_an_unnamed_tracker_is_confirmed_once() -> None:
    """Cancel leads back to the finding; a named tracker needs no confirmation, its name was in the option."""
    begun = walk_of(ONE, TWO, THREE, confirms=True)
    assert ask(begun, "defer").keys == ("proceed", "cancel")
    assert position(ask(begun, "defer", "cancel")) == "Finding 1 of 3"
    drive = Drive()
    ask(begun, "defer", "proceed", "defer", drive=drive)
    assert drive.filed == [1, 2]
    assert position(ask(walk_of(ONE, TWO, trackers=LINEAR, confirms=True), "defer")) == "Finding 2 of 2"


def test_cancel_leads_back_to_the_same_finding() -> None:
    """Earlier decisions and the position are kept."""
    begun = walk_of(ONE, TWO, THREE)
    assert ask(begun, "apply", "rest", "cancel") == ask(begun, "apply")
    done = finish(begun, "apply", "rest", "cancel", "skip", "skip")
    assert [choice.action for choice in done.choices.values()] == ["apply", "skip", "skip"]


def test_proceed_makes_one_fixer_call_with_the_union() -> None:
    """What was accepted before and by the plan, in the order of the walk."""
    drive = Drive()
    begun = walk_of(ONE, TWO, THREE, NO_FIX, advisory(5))
    done = finish(begun, "skip", "apply", "rest", "proceed", drive=drive)
    assert (drive.fixed, drive.filed) == ([[2, 3]], [4])
    assert list(report_data(done)["counts"].values()) == [2, 0, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("route", [Route.ALL, Route.FILE])
def test_all_at_once_starts_with_the_plan(route: Route) -> None:
    """Cancel leads to the routing question."""
    assert ask(walk_of(ONE, TWO), route=route).keys == ("proceed", "cancel")
    assert ask(walk_of(ONE, TWO), "cancel", route=route).keys == ("each", "all", "file", "report")


def test_tickets_for_all_apply_no_fix() -> None:
    """Every finding is filed, whatever is recommended for it; without a tracker the route is asked for."""
    drive = Drive()
    done = finish(walk_of(ONE, NO_FIX), "proceed", route=Route.FILE, drive=drive)
    assert (drive.filed, drive.fixed) == ([1, 4], [])
    assert report_data(done)["counts"]["deferred"] == 2
    assert ask(walk_of(ONE, TWO, trackers=NO_TRACKER), route=Route.FILE).keys == ("each", "all", "report")


def test_report_only_decides_nothing() -> None:
    """Every finding is left as it was."""
    done = finish(walk_of(ONE, TWO), "report", route=Route.ASK)
    assert report_data(done)["counts"]["left"] == 2
    assert decision_events(done, AT, who="anna", by=Actor.USER) == []


def test_nothing_to_decide_asks_nothing() -> None:
    """There is no routing question either."""
    assert finish(walk_of(), route=Route.ASK).choices == {}


def test_what_is_acted_on_is_validated_up_to_a_limit() -> None:
    """The current and undecided findings to apply or defer, fifteen at most, and each once."""
    many = [finding(number) for number in range(1, 21)]
    drive = Drive()
    begun = walk_of(*many, advisory(30), validates=True)
    assert ask(begun, "skip", "rest", "cancel", "rest", drive=drive).keys == ("proceed", "cancel")
    assert drive.validated == [list(range(2, 17))]


def test_what_is_refused_is_dropped_and_reported() -> None:
    """It is neither applied nor decided; the report has the validator's reason."""
    drive = Drive(validate=lambda one: REFUSED if one.number == 2 else Validation(validated=True))
    done = finish(walk_of(ONE, TWO, THREE, validates=True), "rest", "proceed", drive=drive)
    assert drive.fixed == [[1, 3]]
    entries = report_data(done)["findings"]
    assert [one["note"] for one in entries if one["action"] == "dropped"] == ["handled in the caller"]
    assert TWO.id not in done.choices


def test_cancel_takes_nothing_away() -> None:
    """A refused finding is asked about again if the plan is not carried out."""
    drive = Drive(validate=lambda _one: REFUSED)
    done = finish(walk_of(ONE, TWO, validates=True), "rest", "cancel", "apply", "apply", drive=drive)
    assert done.accepted == (line(ONE), line(TWO))


@pytest.mark.parametrize("severity", ["critical", "medium"])
def test_the_silence_of_a_validator_drops_nothing(severity: str) -> None:
    """What it did not answer about stays, and the report says so."""
    begun = walk_of(finding(severity=Severity(severity)), advisory(2), validates=True)
    done = finish(begun, "rest", "proceed", drive=Drive(validate=lambda _one: None))
    assert (done.choices.keys() == {ONE.id, TWO.id}, done.unvalidated == {ONE.id}) == (True, True)
    assert not done.dropped


def test_without_a_validator_the_plan_is_shown_at_once() -> None:
    """Nothing is validated."""
    drive = Drive()
    assert ask(walk_of(ONE, TWO), "rest", drive=drive).plan
    assert drive.validated == []


TRAITS = st.fixed_dictionaries(
    {
        "severity": st.sampled_from(Severity),
        "autofix_class": st.sampled_from(AutofixClass),
        "action": st.sampled_from(("", *Action)),
        "fix": st.none() | st.just("Do it."),
    }
)


@st.composite
def open_findings(draw: st.DrawFn) -> list[Finding]:
    """Open findings, some of them in one line of work."""
    made = [finding(number, **traits) for number, traits in enumerate(draw(st.lists(TRAITS, max_size=6)), 1)]
    heads = [draw(st.sampled_from([one.id, made[0].id])) for one in made]
    return [replace(one, line=head) for one, head in zip(made, heads, strict=True)]


_CIRCULAR = (Turn.CANCEL, Turn.RETRY)  # answers that may lead in a circle


def react(draw: st.DataObject, step: Any, *, tired: bool) -> Any:
    """Whatever may happen next."""
    match step:
        case FileTicket():
            return draw.draw(st.just(Filed("T-1")) | st.just(TicketFailed("down")))
        case NextTracker():
            return draw.draw(st.sampled_from((NO_TRACKER, ISSUES)))
        case Validate():
            some = st.sampled_from([one.id for one in step.lines])
            return draw.draw(st.dictionaries(some, st.builds(Validation, st.booleans())))
        case Tell():
            return None
        case _:
            offered = [key for key in step.keys if not tired or key not in _CIRCULAR]
            return draw.draw(st.sampled_from(offered))


@settings(max_examples=100, deadline=None)
@given(
    st.data(),
    open_findings(),
    st.sampled_from((LINEAR, ISSUES, NO_TRACKER)),
    st.sampled_from(Route),
    st.fixed_dictionaries({"validates": st.booleans(), "confirms": st.booleans()}),
)
def test_every_walk_ends_with_everything_accounted_for(
    data: st.DataObject, found: Sequence[Finding], trackers: TrackerStatus, route: Route, how: Any
) -> None:
    """Counts add up to the lines at the start."""
    begun = walk_of(*found, trackers=trackers, **how)
    steps, past, answer = walk(replace(begun, route=route)), list[Any](), None
    while True:
        try:
            past.append(steps.send(answer))
        except StopIteration as stopped:
            done = stopped.value
            made = data.draw(st.sets(st.sampled_from([one.id for one in done.accepted]))) if done.accepted else set()
            failed = {one.id: "x" for one in done.accepted if one.id not in made}
            done = replace(done, fixes=Fixes(frozenset(made), failed))
            break
        answer = react(data, past[-1], tired=len(past) > 60)
    report = report_data(done)
    count = report["counts"]
    assert sum(count.values()) == len(begun.items) == len(report["findings"])
    assert count["applied"] + count["failed"] + count["accepted"] == len(done.accepted)
    assert len(done.choices) == len(begun.items) - len(done.dropped) - count["left"]
    assert report["verdict"] in render_report(done).splitlines()[-1]
