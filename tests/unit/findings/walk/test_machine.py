"""The walk as a machine: what every answer leads to, and what is asked of whoever drives it."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError

import pytest
from tests.unit.findings.walk.made import (
    AT,
    ISSUES,
    LINEAR,
    Drive,
    advisory,
    done,
    finding,
    items,
    keys,
    question,
    vote,
    walk_of,
)

from pipeline.findings.events import DecisionMade
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import AutofixClass, Finding, Severity
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, TrackerStatus
from pipeline.findings.walk.machine import (
    Dispatch,
    FallBack,
    File,
    IllegalAnswer,
    Question,
    Validate,
    answer,
    ask,
    begin,
    decisions,
)
from pipeline.findings.walk.present import Action, Block, Route, Step, Validation, walk_context

ONE, TWO, THREE = finding(1), finding(2), finding(3)
NO_FIX = finding(4, fix=None, severity=Severity.LOW)
SINKS = (LINEAR, ISSUES, NO_TRACKER)
REFUSED = Validation(validated=False, reason="handled in the caller")


def failing(*reasons: str) -> Callable[[Finding], Filed | TicketFailed]:
    """A tracker that fails with these reasons, and then works."""
    left = list(reasons)
    return lambda one: TicketFailed(left.pop(0)) if left else Filed(f"T-{one.number}")


def test_002_01_a_walk_begins_with_its_first_finding() -> None:
    """002-01, 002-10: a block and a question, apart."""
    asked = question(walk_of(ONE, TWO))
    assert isinstance(asked.above, Block)
    assert asked.above.heading.startswith("Finding 1 of 2 — P1")
    assert asked.stem.startswith("Finding 1 of 2 — P1")


def test_002_01_a_walk_without_a_route_asks_for_one() -> None:
    """002-01, 002-70: option A leads here."""
    walk = walk_of(ONE, TWO, route=None)
    assert keys(walk) == ["each", "all", "file", "report"]
    assert question(answer(walk, "each")).stem.startswith("Finding 1 of 2")


def test_002_03_what_is_known_of_the_trackers_decides_what_is_offered() -> None:
    """002-03: whether there is any, whether a ticket can be filed; whether it is sure, how that is called."""
    offered = {sinks: [str(option) for option in question(walk_of(ONE, sinks=sinks)).options][1] for sinks in SINKS}
    assert offered == {
        LINEAR: "Defer — file a Linear ticket",
        ISSUES: "Defer — file a ticket",
        NO_TRACKER: "Skip — don't apply, don't track",
    }


def test_002_37_the_last_of_many_still_has_the_rest() -> None:
    """002-37: it is not a single finding; the plan then has one finding."""
    walk = Drive().run(walk_of(ONE, TWO), ["skip"])
    assert keys(walk) == ["apply", "defer", "skip", "rest"]
    shown = question(answer(walk, "rest")).above
    assert str(shown).startswith("LFG plan — 1 remaining finding (1 already decided):")


def test_002_40_an_applied_fix_waits_for_the_end() -> None:
    """002-40, 002-50: the id is kept, the next finding is asked about, and no fixer runs."""
    drive = Drive()
    walk = drive.run(walk_of(ONE, TWO), ["apply"])
    assert walk.accepted == (ONE.id,)
    assert walk.position == 1
    assert drive.of(Dispatch) == []


@pytest.mark.parametrize("key", ["acknowledge", "skip"])
def test_002_41_and_42_nothing_else_happens(key: str) -> None:
    """002-41, 002-42: recorded, on to the next, and nothing is asked of anybody."""
    drive = Drive()
    walk = drive.run(walk_of(advisory(1), advisory(2)), [key])
    assert [made.action for made in walk.decided.values()] == [key]
    assert all(isinstance(one, Question) for one in drive.asked)


def test_002_43_a_ticket_is_filed_at_once() -> None:
    """002-43: before the next finding, with its reference kept."""
    drive = Drive()
    walk = drive.run(walk_of(ONE, TWO, sinks=LINEAR), ["defer"])
    assert drive.of(File) == [File(ONE, "Linear")]
    assert walk.decided[ONE.id].reference == "T-1"
    assert walk.position == 1


def test_002_43_a_failed_ticket_keeps_the_position_and_costs_the_name() -> None:
    """002-43, 002-72: the sub-question names tracker and error; the tracker is not named again."""
    walk = Drive(tickets=failing("HTTP 503.")).run(walk_of(ONE, TWO, sinks=LINEAR), ["defer"])
    assert question(walk).stem == ("Defer failed: Linear returned HTTP 503. How should the agent handle this finding?")
    assert keys(walk) == ["retry", "fallback", "convert"]
    assert (walk.position, walk.decided) == (0, {})
    assert walk.sinks == TrackerStatus("Linear", "high", named_sink_available=False, any_sink_available=True)


def test_002_72_a_retry_may_succeed() -> None:
    """002-72: on the same tracker; the label stays general for the session."""
    drive = Drive(tickets=failing("busy"))
    walk = drive.run(walk_of(ONE, TWO, sinks=LINEAR), ["defer", "retry"])
    assert [one.tracker for one in drive.of(File)] == ["Linear", "Linear"]
    assert walk.decided[ONE.id].action is Action.DEFER
    assert [option.label for option in question(walk).options][1] == "Defer — file a ticket"


def test_002_72_a_retry_may_fail_again() -> None:
    """002-72: then the same is asked again, and both failures are kept."""
    walk = Drive(tickets=failing("busy", "gone")).run(walk_of(ONE, sinks=LINEAR), ["defer", "retry"])
    assert keys(walk) == ["retry", "fallback", "convert"]
    assert [(trouble.reason, trouble.then) for trouble in walk.troubles] == [("busy", "retried"), ("gone", "")]


def test_002_72_the_next_tracker_takes_over() -> None:
    """002-72: for this finding and for those that follow."""
    drive = Drive(tickets=failing("busy"), sinks=[ISSUES])
    walk = drive.run(walk_of(ONE, TWO, sinks=LINEAR), ["defer", "fallback", "defer"])
    assert drive.of(FallBack) == [FallBack("busy")]
    assert [one.tracker for one in drive.of(File)] == ["Linear", "GitHub Issues", "GitHub Issues"]
    assert walk.decided[TWO.id].tracker == "GitHub Issues"
    assert walk.troubles[0].then == "fell back to GitHub Issues"


def test_002_72_without_another_tracker_nothing_can_be_deferred() -> None:
    """002-72: the same finding is asked about again, now without tickets; only then is there no sink."""
    walk = Drive(tickets=failing("busy")).run(walk_of(ONE, TWO, sinks=LINEAR), ["defer", "fallback"])
    assert walk.position == 0
    assert keys(walk) == ["apply", "skip", "rest"]
    assert question(walk).stem.endswith("Defer unavailable on this platform — no durable tracker sink detected.")


def test_002_43_a_failure_can_be_turned_into_a_skip() -> None:
    """002-43: the walk goes on, and the failure is in the report."""
    walk = Drive(tickets=failing("no rights")).run(walk_of(ONE, sinks=LINEAR), ["defer", "convert"])
    told = done(walk).report
    assert [line.bucket for line in told.lines] == ["skipped"]
    assert told.lines[0].note == "no ticket could be made: no rights"
    assert (told.failures[0].tracker, told.failures[0].then) == ("Linear", "converted to Skip")


def test_002_72_a_tracker_without_a_reason_has_one() -> None:
    """002-72: an empty answer of a tracker is told as that, and a hostile one is inert."""
    walk = Drive(tickets=failing("\x1b[2J\n")).run(walk_of(ONE, sinks=LINEAR), ["defer"])
    assert "Linear returned no reason given." in question(walk).stem


def test_002_72_the_first_ticket_for_an_unnamed_tracker_is_confirmed() -> None:
    """002-72: once in a session, where somebody can be asked; Cancel leads back to the finding."""
    walk = walk_of(ONE, TWO, THREE, confirms=True)
    asked = Drive().run(walk, ["defer"])
    assert question(asked).stem == "This files a ticket on GitHub Issues. Proceed?"
    assert question(answer(asked, "cancel")).stem.startswith("Finding 1 of 3")
    drive = Drive()
    drive.run(walk, ["defer", "proceed", "defer"])
    assert len(drive.of(File)) == 2


def test_002_72_a_named_tracker_needs_no_confirmation() -> None:
    """002-72: its name was in the option."""
    walk = walk_of(ONE, TWO, sinks=LINEAR, confirms=True)
    assert isinstance(ask(answer(walk, "defer")), File)


def test_002_44_cancel_leads_back_to_the_same_finding() -> None:
    """002-44: earlier decisions are kept, and the position is."""
    before = Drive().run(walk_of(ONE, TWO, THREE), ["apply"])
    after = Drive().run(before, ["rest", "cancel"])
    assert ask(after) == ask(before)
    assert (after.decided, after.position) == (before.decided, 1)


def test_002_44_proceed_makes_one_fixer_call_with_the_union() -> None:
    """002-44, 002-50: what was accepted before and by the plan, in the order of the walk."""
    drive = Drive()
    walk = drive.run(walk_of(ONE, TWO, THREE, NO_FIX, advisory(5)), ["skip", "apply", "rest", "proceed"])
    assert drive.of(Dispatch) == [Dispatch((TWO.id, THREE.id))]
    assert drive.of(File) == [File(NO_FIX, "GitHub Issues")]
    assert done(walk).report.counts == {
        "applied": 2, "deferred": 1, "skipped": 1, "acknowledged": 1, "dropped": 0, "left": 0
    }  # fmt: skip


def test_002_44_what_is_acted_on_is_looked_at_once_more() -> None:
    """002-44: the current and undecided findings that would be applied or deferred, fifteen at most."""
    many = [finding(number) for number in range(1, 21)]
    drive = Drive()
    drive.run(walk_of(*many, advisory(30), validates=True), ["skip", "rest"])
    [looked] = drive.of(Validate)
    assert [one.number for one in looked.findings] == list(range(2, 17))


def test_002_44_the_cap_holds_when_a_plan_is_made_again() -> None:
    """002-44: what was looked at is not looked at twice; what was left out for the number still is."""
    many = [finding(number) for number in range(1, 21)]
    drive = Drive()
    walk = drive.run(walk_of(*many, validates=True), ["rest", "cancel", "rest"])
    assert len(drive.of(Validate)) == 1
    assert walk.step is Step.PREVIEWING


def test_002_44_what_is_refused_is_dropped_and_told() -> None:
    """002-44, 002-74: not in the plan, nor applied; in the report with the validator's reason, and still open."""
    drive = Drive(judge=lambda one: REFUSED if one.number == 2 else Validation(validated=True))
    walk = drive.run(walk_of(ONE, TWO, THREE, validates=True), ["rest"])
    shown = str(question(walk).above)
    assert shown.startswith("LFG plan — 2 remaining findings (0 already decided):")
    assert "Dropping — refused by the validator (1):" in shown
    over = drive.run(walk, ["proceed"])
    assert drive.of(Dispatch) == [Dispatch((ONE.id, THREE.id))]
    assert [line.note for line in done(over).report.lines if line.bucket == "dropped"] == ["handled in the caller"]
    assert TWO.id not in {event.id for event in decisions(over, AT, "user") if isinstance(event, DecisionMade)}


def test_002_44_cancel_takes_nothing_away() -> None:
    """002-44: a finding that was refused is asked about again when the plan is not carried out."""
    drive = Drive(judge=lambda _one: REFUSED)
    walk = drive.run(walk_of(ONE, TWO, validates=True), ["rest", "cancel", "apply", "apply"])
    assert walk.accepted == (ONE.id, TWO.id)


@pytest.mark.parametrize(("severity", "kept"), [("critical", True), ("high", True), ("medium", False)])
def test_002_74_a_validator_that_does_not_answer_drops_nothing_grave(severity: str, *, kept: bool) -> None:
    """002-74: "validator failed" drops a finding, but a P0 or P1 is kept."""
    drive = Drive(judge=lambda _one: None)
    walk = drive.run(walk_of(finding(severity=Severity(severity)), advisory(2), validates=True), ["rest", "proceed"])
    line = next(line for line in done(walk).report.lines if line.item.finding.number == 1)
    assert (line.bucket, line.note) == (("applied", "src/cache.py:36-37") if kept else ("dropped", "validator failed"))


def test_002_44_without_a_validator_nobody_looks() -> None:
    """002-44: the plan is shown at once."""
    drive = Drive()
    drive.run(walk_of(ONE, TWO), ["rest"])
    assert drive.of(Validate) == []


def test_002_44_a_plan_that_loses_its_tracker_skips_the_rest() -> None:
    """002-44, 002-72: a ticket that fails in a plan is asked about; without a sink what was to be deferred is not."""
    drive = Drive(tickets=failing("down"))
    others = [finding(number, fix=None) for number in (5, 6)]
    walk = drive.run(walk_of(NO_FIX, *others), ["rest", "proceed", "fallback"])
    assert [made.action for made in walk.decided.values()] == ["skip"] * 3
    assert {made.reason for made in walk.decided.values()} == {"no tracker sink available"}


def test_002_45_another_action_than_the_recommended_can_be_chosen() -> None:
    """002-45: any preset of the menu, and nothing that is not in it."""
    walk = walk_of(finding(votes=(vote("x", "skip"),)), sinks=NO_TRACKER)
    assert answer(walk, "apply").accepted
    with pytest.raises(IllegalAnswer, match='"rewrite it" is no answer here: expected one of apply, skip'):
        answer(walk, "rewrite it")


def test_002_39_what_was_not_asked_cannot_be_answered() -> None:
    """002-39: neither an option that is not shown, nor anything when nothing is asked."""
    with pytest.raises(IllegalAnswer, match="expected one of apply, skip"):
        answer(walk_of(ONE, sinks=NO_TRACKER), "defer")
    with pytest.raises(IllegalAnswer, match="nothing was asked"):
        answer(answer(walk_of(ONE), "apply"), "apply")


def test_002_46_a_walk_that_is_not_over_has_decided_nothing() -> None:
    """002-46, C-20: state is in memory; the ledger learns of it at the end, and of everything at once."""
    walk = Drive().run(walk_of(ONE, TWO), ["apply"])
    assert decisions(walk, AT, "user") == []
    over = Drive().run(walk, ["defer"])
    events = [event for event in decisions(over, AT, "user") if isinstance(event, DecisionMade)]
    assert [(event.id, event.decision.action, event.decision.ref) for event in events] == [
        (ONE.id, "apply", ""),
        (TWO.id, "defer", "T-2"),
    ]  # fmt: skip


def test_002_46_an_answer_changes_no_walk_but_gives_a_new_one() -> None:
    """002-46: a walk that was let go of is as it was."""
    walk = walk_of(ONE, TWO)
    answer(walk, "apply")
    assert (walk.position, walk.decided) == (0, {})
    with pytest.raises(FrozenInstanceError):
        walk.__setattr__("position", 3)


def test_c_20_a_decision_leaves_a_finding_open() -> None:
    """C-20, C-21: an action is no state; any reference of a ticket is kept."""
    over = Drive(tickets=lambda _one: Filed("task 7 of this session")).run(walk_of(ONE), ["defer"])
    ledger = Ledger()
    ledger.findings[ONE.id] = ONE
    for event in decisions(over, AT, "user"):
        ledger.apply(event)
    assert ledger.findings[ONE.id].state is ONE.state
    assert ledger.findings[ONE.id].decisions[0].ref == "task 7 of this session"


def test_002_50_one_fixer_gets_fixes_of_every_class() -> None:
    """002-50: gated and manual findings in one queue, after the last answer."""
    manual = finding(2, autofix_class=AutofixClass.MANUAL)
    drive = Drive()
    drive.run(walk_of(ONE, manual), ["apply", "apply"])
    assert drive.asked[-1] == Dispatch((ONE.id, manual.id))
    assert len(drive.of(Dispatch)) == 1


def test_002_51_without_accepted_fixes_there_is_no_fixer() -> None:
    """002-50, 002-51: nothing to apply, nothing is dispatched."""
    drive = Drive()
    drive.run(walk_of(ONE, TWO), ["skip", "defer"])
    assert drive.of(Dispatch) == []


@pytest.mark.parametrize("route", [Route.ALL, Route.FILE])
def test_002_70_all_at_once_begins_with_the_plan(route: Route) -> None:
    """002-70, 002-71: and Cancel leads to the routing question."""
    walk = walk_of(ONE, TWO, route=route)
    assert keys(walk) == ["proceed", "cancel"]
    assert keys(answer(walk, "cancel")) == ["each", "all", "file", "report"]


def test_002_70_tickets_for_all_apply_no_fix() -> None:
    """002-70: every finding is filed, whatever is recommended for it."""
    drive = Drive()
    walk = drive.run(walk_of(ONE, NO_FIX, route=Route.FILE), ["proceed"])
    assert [one.finding.number for one in drive.of(File)] == [1, 4]
    assert (drive.of(Dispatch), done(walk).report.counts["deferred"]) == ([], 2)


def test_002_70_without_a_tracker_tickets_are_no_way() -> None:
    """002-70: who wants them is asked what else to do."""
    walk = walk_of(ONE, TWO, sinks=NO_TRACKER, route=Route.FILE)
    assert keys(walk) == ["each", "all", "report"]


def test_002_70_report_only_decides_nothing() -> None:
    """002-70: everything is left as it was."""
    walk = answer(walk_of(ONE, TWO, route=None), "report")
    assert done(walk).report.counts["left"] == 2
    assert decisions(walk, AT, "user") == []


def test_002_66_nothing_to_decide_asks_nothing() -> None:
    """002-66: no routing question either."""
    assert done(begin((), LINEAR, route=None)).report.lines == ()


def test_what_a_ledger_says_beside_the_findings() -> None:
    """002-65: without a pass there is no coverage to tell of."""
    ledger = Ledger()
    ledger.findings[ONE.id] = ONE
    assert walk_context(ledger).findings == (ONE,)
    assert (walk_context(ledger).coverage, walk_context(ledger).suppressed) == (None, 0)


def test_a_ticket_goes_to_a_tracker_even_if_it_has_no_name() -> None:
    """002-72: what cannot be named is called the tracker."""
    nameless = TrackerStatus(any_sink_available=True)
    walk = answer(begin(items(ONE, sinks=nameless), nameless), "defer")
    assert ask(walk) == File(ONE, "the tracker")
