"""The walk as a state machine: what can be chosen, what every answer leads to, and what a session has to do."""

from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import ledgers
from tests.unit.findings.walk.builders import (
    AT,
    ISSUES,
    LINEAR,
    Drive,
    advisory,
    finding,
    items,
    keys,
    ledger_of,
    vote,
    walk_of,
)

from pipeline.errors import AwfError
from pipeline.findings.events import DecisionMade
from pipeline.findings.model import AutofixClass, Finding, FindingState, Location, Severity
from pipeline.findings.scales import confidence_from_anchor
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, TrackerStatus
from pipeline.findings.walk.machine import (
    Action,
    Fixes,
    Reply,
    Route,
    Step,
    Validation,
    Walk,
    answer,
    available_action,
    begin,
    choices,
    findings_to_validate,
    recommend,
    recommendations,
    record_fallback,
    record_fixes,
    record_ticket,
    record_validations,
)
from pipeline.findings.walk.present import question
from pipeline.findings.walk.report import render_report, report_data
from pipeline.findings.walk.session import decision_events, pending_findings

ONE, TWO, THREE = finding(1), finding(2), finding(3)
NO_FIX = finding(4, fix=None, severity=Severity.LOW)
REFUSED = Validation(validated=False, reason="handled in the caller")
ALL_TRACKERS = st.builds(
    TrackerStatus, st.sampled_from(("", "Linear")), st.sampled_from(("high", "low")), st.booleans(), st.booleans()
)


def failing(*reasons: str) -> Callable[[Finding], Filed | TicketFailed]:
    """A tracker that fails with these reasons, and then works."""
    left = list(reasons)
    return lambda one: TicketFailed(left.pop(0)) if left else Filed(f"T-{one.number}")


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
    assert [one.number for one in pending_findings(found)] == [6, 4, 3, 2, 5, 7, 1]


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
    assert bool(pending_findings([finding(**changes)])) is asked
    assert pending_findings([advisory()], advisory=True)


@pytest.mark.parametrize(
    ("actions", "winner"),
    [
        (("apply", "defer"), Action.DEFER),
        (("apply", "skip"), Action.SKIP),
        (("skip", "defer"), Action.SKIP),
        (("acknowledge", "apply"), Action.APPLY),
        (("apply", "apply"), Action.APPLY),
    ],
)
def test_the_most_conservative_action_breaks_a_tie(actions: tuple[str, ...], winner: Action) -> None:
    """Skip wins over Defer, Defer over Apply, Apply over Acknowledge, in whatever order they voted."""
    votes = tuple(vote(str(number), action) for number, action in enumerate(actions))
    assert recommend(finding(votes=votes), LINEAR) is winner
    assert recommend(finding(votes=votes[::-1]), LINEAR) is winner


def test_the_last_vote_of_a_reviewer_counts() -> None:
    """A vote without a known action does not replace an earlier one."""
    votes = (vote("correctness", "skip"), vote("correctness", ""), vote("correctness", "apply"), vote("x", "dance"))
    assert [one.action for one in recommendations(finding(votes=votes)).values()] == ["apply"]


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
def test_without_votes_the_finding_itself_suggests_an_action(
    one: Finding, trackers: TrackerStatus, action: Action
) -> None:
    """A fix is applied, advice acknowledged; without a fix a ticket is filed, if there is a tracker."""
    assert recommend(one, trackers) is action


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
    chosen = tuple(replace(item, recommended=action) for item in items(*map(make, range(1, total + 1))))
    options = question(begin(chosen, trackers, ledger_of())).options
    assert sum(option.recommended for option in options) == 1
    assert options[0].key == ("acknowledge" if is_advisory else "apply")
    assert ("defer" in [option.key for option in options]) is trackers.any_sink_available


def test_a_walk_without_a_route_asks_for_one() -> None:
    """The first route leads to the first finding."""
    walk = walk_of(ONE, TWO, route=None)
    assert keys(walk) == ["each", "all", "file", "report"]
    assert answer(walk, "each").step is Step.ASKING


def test_the_last_of_many_still_has_the_rest() -> None:
    """It is not a single finding."""
    assert keys(Drive().run(walk_of(ONE, TWO), ["skip"])) == ["apply", "defer", "skip", "rest"]
    assert keys(walk_of(ONE)) == ["apply", "defer", "skip"]


def test_an_applied_fix_waits_for_the_end() -> None:
    """The finding is accepted, the next one asked about, and no fixer runs."""
    drive = Drive()
    walk = drive.run(walk_of(ONE, TWO), ["apply"])
    assert (walk.accepted, walk.position, drive.fixed) == ((ONE,), 1, [])


@pytest.mark.parametrize("key", ["acknowledge", "skip"])
def test_acknowledge_and_skip_have_no_side_effect(key: str) -> None:
    """They are recorded, and the next finding is asked about."""
    drive = Drive()
    walk = drive.run(walk_of(advisory(1), advisory(2)), [key])
    assert [decision.action for decision in walk.decisions.values()] == [key]
    assert drive.steps == [Step.ASKING]


def test_a_ticket_is_filed_at_once() -> None:
    """Before the next finding, with its reference kept."""
    drive = Drive()
    walk = drive.run(walk_of(ONE, TWO, trackers=LINEAR), ["defer"])
    assert drive.filed == [(1, "Linear")]
    assert (walk.decisions[ONE.id].ref, walk.position) == ("T-1", 1)


def test_another_action_than_the_recommended_can_be_chosen_but_nothing_else() -> None:
    """Any option of the menu; not one that is not shown, and nothing if nothing is asked."""
    walk = walk_of(finding(votes=(vote("x", "skip"),)), trackers=NO_TRACKER)
    assert answer(walk, "apply").accepted
    for wrong in ("rewrite it", "defer"):
        with pytest.raises(AwfError, match="apply, skip"):
            answer(walk, wrong)
    with pytest.raises(AwfError):
        answer(answer(walk, "apply"), "apply")


def test_an_answer_returns_a_new_walk() -> None:
    """A walk that was dropped is as it was."""
    walk = walk_of(ONE, TWO)
    answer(walk, "apply")
    assert (walk.position, walk.decisions) == (0, {})
    with pytest.raises(FrozenInstanceError):
        walk.__setattr__("position", 3)


def test_a_walk_that_is_not_done_has_decided_nothing() -> None:
    """The ledger learns of all decisions at the end; a decision leaves a finding in its state."""
    walk = Drive().run(walk_of(ONE, TWO), ["apply"])
    assert decision_events(walk, AT, "user") == []
    done = Drive(tickets=lambda _one: Filed("task 7 of this session")).run(walk, ["defer"])
    events = [event for event in decision_events(done, AT, "user") if isinstance(event, DecisionMade)]
    assert [(event.id, event.decision.action, event.decision.ref) for event in events] == [
        (ONE.id, "apply", ""),
        (TWO.id, "defer", "task 7 of this session"),
    ]
    ledger = ledger_of(ONE, TWO)
    for event in events:
        ledger.apply(event)
    assert {one.state for one in ledger} == {FindingState.OPEN}
    assert (events[0].decision.at, events[0].decision.by) == (AT, "user")


def test_one_fixer_gets_fixes_of_every_class() -> None:
    """Gated and manual findings in one queue, after the last answer; without accepted fixes there is none."""
    drive = Drive()
    drive.run(walk_of(ONE, finding(2, autofix_class=AutofixClass.MANUAL)), ["apply", "apply"])
    assert (drive.fixed, drive.steps[-1]) == ([[1, 2]], Step.FIXING)
    drive = Drive()
    drive.run(walk_of(ONE, TWO), ["skip", "defer"])
    assert drive.fixed == []


def test_the_position_stays_and_the_tracker_is_not_named_again() -> None:
    """The sub-question is about the same finding."""
    walk = Drive(tickets=failing("HTTP 503.")).run(walk_of(ONE, TWO, trackers=LINEAR), ["defer"])
    assert keys(walk) == ["retry", "fallback", "convert"]
    assert (walk.position, walk.decisions) == (0, {})
    assert walk.trackers == replace(LINEAR, named_sink_available=False)


def test_a_retry_may_succeed_or_fail_again() -> None:
    """On the same tracker; every failure is kept with what was done then."""
    drive = Drive(tickets=failing("busy", "gone"))
    walk = drive.run(walk_of(ONE, TWO, trackers=LINEAR), ["defer", "retry"])
    assert keys(walk) == ["retry", "fallback", "convert"]
    assert [(one.failure, one.then) for one in walk.tickets] == [("busy", "retried"), ("gone", "")]
    walk = drive.run(walk, ["retry"])
    assert drive.filed == [(1, "Linear")] * 3
    assert walk.decisions[ONE.id].action == Action.DEFER


def test_the_next_tracker_takes_over() -> None:
    """For this finding and for those that follow."""
    drive = Drive(tickets=failing("busy"), trackers=[ISSUES])
    walk = drive.run(walk_of(ONE, TWO, trackers=LINEAR), ["defer", "fallback", "defer"])
    assert drive.filed == [(1, "Linear"), (1, "GitHub Issues"), (2, "GitHub Issues")]
    assert walk.tickets[0].then.endswith("GitHub Issues")


def test_without_another_tracker_nothing_can_be_deferred() -> None:
    """The same finding is asked about again, now without tickets."""
    walk = Drive(tickets=failing("busy")).run(walk_of(ONE, TWO, trackers=LINEAR), ["defer", "fallback"])
    assert (walk.position, keys(walk)) == (0, ["apply", "skip", "rest"])


def test_a_failure_can_be_converted_to_a_skip() -> None:
    """The walk continues, and the failure is in the report."""
    walk = Drive(tickets=failing("no rights")).run(walk_of(ONE, trackers=LINEAR), ["defer", "convert"])
    report = report_data(walk)
    assert report["counts"]["skipped"] == 1
    assert "no rights" in report["findings"][0]["note"]
    assert (report["failures"][0]["tracker"], report["failures"][0]["then"]) == ("Linear", "converted to Skip")


def test_a_plan_that_loses_its_tracker_skips_the_rest() -> None:
    """A ticket that fails in a plan is asked about; without a tracker what was to be deferred is skipped."""
    others = [finding(number, fix=None) for number in (5, 6)]
    walk = Drive(tickets=failing("down")).run(walk_of(NO_FIX, *others), ["rest", "proceed", "fallback"])
    assert [decision.action for decision in walk.decisions.values()] == ["skip"] * 3
    tickets = report_data(walk)["tickets"]
    assert (len(tickets["failed"]), len(tickets["no_sink"])) == (1, 2)


def test_the_first_ticket_for_an_unnamed_tracker_is_confirmed_once() -> None:
    """Cancel leads back to the finding; a named tracker needs no confirmation, its name was in the option."""
    walk = walk_of(ONE, TWO, THREE, confirms=True)
    asked = Drive().run(walk, ["defer"])
    assert asked.step is Step.CONFIRMING
    assert answer(asked, "cancel").step is Step.ASKING
    drive = Drive()
    drive.run(walk, ["defer", "proceed", "defer"])
    assert len(drive.filed) == 2
    assert answer(walk_of(ONE, TWO, trackers=LINEAR, confirms=True), "defer").step is Step.FILING


def test_a_tracker_without_a_name_is_called_the_tracker() -> None:
    """A plugin may leave its name empty."""
    nameless = TrackerStatus(any_sink_available=True)
    assert answer(walk_of(ONE, trackers=nameless), "defer").tracker == "the tracker"


def test_cancel_leads_back_to_the_same_finding() -> None:
    """Earlier decisions and the position are kept."""
    before = Drive().run(walk_of(ONE, TWO, THREE), ["apply"])
    assert Drive().run(before, ["rest", "cancel"]) == before


def test_proceed_makes_one_fixer_call_with_the_union() -> None:
    """What was accepted before and by the plan, in the order of the walk."""
    drive = Drive()
    walk = drive.run(walk_of(ONE, TWO, THREE, NO_FIX, advisory(5)), ["skip", "apply", "rest", "proceed"])
    assert drive.fixed == [[2, 3]]
    assert drive.filed == [(4, "GitHub Issues")]
    assert list(report_data(walk)["counts"].values()) == [2, 0, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("route", [Route.ALL, Route.FILE])
def test_all_at_once_starts_with_the_plan(route: Route) -> None:
    """Cancel leads to the routing question."""
    walk = walk_of(ONE, TWO, route=route)
    assert walk.step is Step.PREVIEWING
    assert keys(answer(walk, "cancel")) == ["each", "all", "file", "report"]


def test_tickets_for_all_apply_no_fix() -> None:
    """Every finding is filed, whatever is recommended for it; without a tracker the route is asked for."""
    drive = Drive()
    walk = drive.run(walk_of(ONE, NO_FIX, route=Route.FILE), ["proceed"])
    assert ([number for number, _ in drive.filed], drive.fixed) == ([1, 4], [])
    assert report_data(walk)["counts"]["deferred"] == 2
    assert keys(walk_of(ONE, TWO, trackers=NO_TRACKER, route=Route.FILE)) == ["each", "all", "report"]


def test_report_only_decides_nothing() -> None:
    """Every finding is left as it was."""
    walk = answer(walk_of(ONE, TWO, route=None), "report")
    assert report_data(walk)["counts"]["left"] == 2
    assert decision_events(walk, AT, "user") == []


def test_nothing_to_decide_asks_nothing() -> None:
    """There is no routing question either."""
    assert walk_of(route=None).step is Step.DONE


def test_what_is_acted_on_is_validated_up_to_a_limit() -> None:
    """The current and undecided findings to apply or defer, fifteen at most, and each once."""
    many = [finding(number) for number in range(1, 21)]
    drive = Drive()
    walk = drive.run(walk_of(*many, advisory(30), validates=True), ["skip", "rest", "cancel", "rest"])
    assert drive.validated == [list(range(2, 17))]
    assert walk.step is Step.PREVIEWING


def test_what_is_refused_is_dropped_and_reported() -> None:
    """It is neither applied nor decided; the report has the validator's reason."""
    drive = Drive(validate=lambda one: REFUSED if one.number == 2 else Validation(validated=True))
    walk = drive.run(walk_of(ONE, TWO, THREE, validates=True), ["rest", "proceed"])
    assert drive.fixed == [[1, 3]]
    entries = report_data(walk)["findings"]
    assert [one["note"] for one in entries if one["action"] == "dropped"] == ["handled in the caller"]
    assert TWO.id not in walk.decisions


def test_cancel_takes_nothing_away() -> None:
    """A refused finding is asked about again if the plan is not carried out."""
    drive = Drive(validate=lambda _one: REFUSED)
    walk = drive.run(walk_of(ONE, TWO, validates=True), ["rest", "cancel", "apply", "apply"])
    assert walk.accepted == (ONE, TWO)


@pytest.mark.parametrize(("severity", "kept"), [("critical", True), ("high", True), ("medium", False)])
def test_a_validator_that_does_not_answer_drops_no_severe_finding(severity: str, *, kept: bool) -> None:
    """A P0 or P1 that could not be validated stays."""
    drive = Drive(validate=lambda _one: None)
    found = walk_of(finding(severity=Severity(severity)), advisory(2), validates=True)
    walk = drive.run(found, ["rest", "proceed"])
    assert (ONE.id in walk.decisions) is kept
    assert (ONE.id in walk.dropped) is not kept


def test_without_a_validator_the_plan_is_shown_at_once() -> None:
    """Nothing is validated."""
    drive = Drive()
    assert drive.run(walk_of(ONE, TWO), ["rest"]).step is Step.PREVIEWING
    assert drive.validated == []


_OPEN: dict[str, Any] = {"state": FindingState.OPEN, "pre_existing": False, "confidence": confidence_from_anchor(75)}
_CIRCULAR = (Reply.CANCEL, Reply.RETRY)  # answers that may lead in a circle


def advance(draw: st.DataObject, walk: Walk, *, tired: bool) -> Walk:
    """Whatever may happen next."""
    match walk.step:
        case Step.FILING:
            return record_ticket(walk, draw.draw(st.just(Filed("T-1")) | st.just(TicketFailed("down"))))
        case Step.FALLING_BACK:
            return record_fallback(walk, draw.draw(st.sampled_from((NO_TRACKER, ISSUES))))
        case Step.VALIDATING:
            some = st.sampled_from([one.id for one in findings_to_validate(walk)])
            return record_validations(walk, draw.draw(st.dictionaries(some, st.builds(Validation, st.booleans()))))
        case Step.FIXING:
            ids = [one.id for one in walk.accepted]
            made = draw.draw(st.sets(st.sampled_from(ids)))
            return record_fixes(walk, Fixes(frozenset(made), {id: "x" for id in ids if id not in made}))
        case _:
            assert question(walk) == question(walk)
            offered = [key for key in choices(walk) if not tired or key not in _CIRCULAR]
            return answer(walk, draw.draw(st.sampled_from(offered)))


@settings(max_examples=100, deadline=None)
@given(
    st.data(),
    ledgers(6).map(lambda found: [replace(one, **_OPEN) for one in found]),
    st.sampled_from((LINEAR, ISSUES, NO_TRACKER)),
    st.none() | st.sampled_from(Route),
    st.fixed_dictionaries({"validates": st.booleans(), "confirms": st.booleans()}),
)
def test_every_walk_ends_with_all_findings_accounted_for(
    data: st.DataObject, found: Sequence[Finding], trackers: TrackerStatus, route: Route | None, how: Any
) -> None:
    """Counts add up to the findings at the start; at most one fixer runs, at the end; nothing is decided before."""
    wanted = items(*found, trackers=trackers)
    walk = begin(wanted, trackers, ledger_of(*found), route=route, **how)
    past: list[Step] = []
    while walk.step is not Step.DONE:
        assert decision_events(walk, AT, "user") == []
        past.append(walk.step)
        walk = advance(data, walk, tired=len(past) > 60)
    report = report_data(walk)
    count = report["counts"]
    assert sum(count.values()) == len(wanted) == len(report["findings"])
    assert past.count(Step.FIXING) == bool(walk.accepted) == (Step.FIXING in past[-1:])
    assert count["applied"] + count["failed"] + count["accepted"] == len(walk.accepted)
    decided = len(wanted) - len(walk.dropped) - count["left"]
    assert len(decision_events(walk, AT, "user")) == len(walk.decisions) == decided
    assert report["verdict"] in render_report(walk).splitlines()[-1]
