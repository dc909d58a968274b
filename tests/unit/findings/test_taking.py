"""A whole pass: every item has one outcome, the order of answers changes nothing, and no input raises an error."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.passes import add_pass, draft, report, reports_of, ruling, run_pass

from pipeline.findings.events import Disposition, FindingChanged, FindingRaised, PassRecorded
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Actor,
    AutofixClass,
    Category,
    Confidence,
    Draft,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    Location,
    Owner,
    ReportStatus,
    Severity,
    What,
)
from pipeline.findings.taking import Taken
from pipeline.findings.triage import triage
from pipeline.language.model import Lens

HOSTILE = st.one_of(
    st.sampled_from(["", " ", "../../etc/passwd", "/etc/passwd", "a\0b", "\ud800", "\x1b[31m`x`\n## Heading", "AC-3"]),
    st.text(max_size=20),
)
PATHS = st.one_of(st.sampled_from(["src/a.py", "src/b.py", "./src/a.py", "src/gone.py"]), HOSTILE)
NUMBERS = st.one_of(st.none(), st.integers(-1, 20), st.integers())
TITLES = st.one_of(st.sampled_from(["One lock", "two locks", "Two locks!", "one lock held"]), HOSTILE)
PLACES = st.builds(Location, path=PATHS, start=NUMBERS, end=NUMBERS, symbol=st.sampled_from(["", "save", "load"]))
QUOTES = st.sampled_from(["", "line 7 of a file", "nowhere"])
EVIDENCE = st.builds(Evidence, path=PATHS, start=NUMBERS, end=NUMBERS, quote=QUOTES, raw=HOSTILE)
SCALES = st.sampled_from(["anchor", "word", "sarif"])
CONFIDENCE = st.builds(Confidence, value=st.sampled_from([0, 25, 50, 75, 83, 100]), scale=SCALES)
QUOTED: dict[str, Any] = {"quote": "line 10 of a file"}
OPEN, DISMISSED = FindingState.OPEN, FindingState.FALSE_POSITIVE


@st.composite
def drafts(draw: st.DrawFn) -> list[Draft]:
    """Items of a few reviewers, numbered as a format numbers them."""
    made = []
    for n in range(draw(st.integers(0, 12))):
        reviewer = draw(st.sampled_from(["a", "b", "testing", "\ud800"]))
        made.append(
            Draft(
                input_id=f"{reviewer}#{n}",
                reviewer=reviewer,
                title=draw(TITLES),
                severity=draw(st.sampled_from(Severity)),
                confidence=draw(CONFIDENCE),
                category=draw(st.sampled_from([Category.BUG, Category.SECURITY, Category.PRODUCT])),
                impact=draw(TITLES),
                autofix_class=draw(st.sampled_from(AutofixClass)),
                owner=draw(st.sampled_from(Owner)),
                pre_existing=draw(st.booleans()),
                locations=tuple(draw(st.lists(PLACES, max_size=2))),
                evidence=tuple(draw(st.lists(EVIDENCE, max_size=2))),
                suppressed=draw(st.sampled_from([None, None, "noqa"])),
                unreadable=draw(st.sampled_from(["", "", "", "it has no title"])),
            )
        )
    return made


def findings(done: Taken) -> list[Finding]:
    """The findings that a first pass raised."""
    return list(Ledger(done.events).findings.values())


@given(drafts())
@settings(max_examples=100, deadline=None)
def test_every_item_has_exactly_one_outcome(items: list[Draft]) -> None:
    """What is kept is one finding of its own reviewer, and all of it can be written and read again."""
    done = run_pass(*items)
    inputs = Counter(one.input_id.encode(errors="replace").decode() for one in items)
    assert Counter(item.input_id for item in done.passed.entries) == inputs
    outcomes = {item.input_id: item for item in done.passed.entries}
    raised = findings(done)
    for finding in raised:
        kept = Disposition.REJECTED if finding.unreadable else Disposition.SURVIVING
        assert outcomes[finding.input_id].disposition in (kept, Disposition.SUPPRESSED, Disposition.MERGED)
        assert finding.input_id.startswith(f"{finding.reviewer}#")
        assert all(not place.path.startswith(("/", "..")) for place in finding.locations)
    assert len({(finding.reviewer, finding.signature) for finding in raised}) == len(raised)
    assert all(event.model_dump_json() for event in done.events)
    assert set(done.passed.finding_ids) == {finding.id for finding in raised}


@given(drafts(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_reviewers_and_items_changes_nothing(items: list[Draft], chance: random.Random) -> None:
    """Neither findings nor outcomes nor events depend on who answered first."""
    assert run_pass(*chance.sample(items, len(items))) == run_pass(*items)


@given(drafts())
@settings(max_examples=50, deadline=None)
def test_the_same_pass_again_raises_nothing(items: list[Draft]) -> None:
    """What is known is seen again, in the lines of work of the first time."""
    ledger = Ledger()
    first = add_pass(ledger, *items)
    known = {id: finding.line for id, finding in ledger.findings.items()}
    again = add_pass(ledger, *items, at="2026-11-17T00:00:00Z", seconds=200)
    assert not [event for event in again.events if isinstance(event, FindingRaised)]
    assert {id: finding.line for id, finding in ledger.findings.items()} == known
    assert set(again.passed.finding_ids) == set(first.passed.finding_ids)


def test_outcomes_come_in_the_order_of_their_numbers() -> None:
    """The tenth item comes after the second, and one with a strange name somewhere."""
    made = [draft("b", n, n=n, title=f"t{n}") for n in (10, 2)] + [draft("a", input_id="a#" + "9" * 5000)]
    assert [item.input_id[:4] for item in run_pass(*made).passed.entries] == ["a#99", "b#2", "b#10"]


def test_a_pass_is_recorded_before_its_findings_and_names_them() -> None:
    """Its ids are those raised, reported again or confirmed in it; none when it is clean."""
    result = run_pass(draft())
    first, raised = result.events
    assert isinstance(first, PassRecorded)
    assert isinstance(raised, FindingRaised)
    assert first.assessment.finding_ids == (raised.finding.id,) == result.passed.finding_ids
    assert (raised.finding.pass_id, raised.finding.state) == (result.passed.id, OPEN)
    clean = run_pass(reports=[report("qa")])
    assert (clean.passed.finding_ids, len(clean.events)) == ((), 1)
    upheld = run_pass(reports=[report(rulings=(ruling(1, "not_fixed"),))], ledger=Ledger(result.events), seconds=200)
    assert upheld.passed.finding_ids == (raised.finding.id,)


def test_a_round_of_several_reviewers_is_one_pass_over_all_lenses() -> None:
    """Each reviewer's look and each finding has its lens."""
    given = (draft("security", 3, title="Handle leaks"), draft("tester", 20, title="Race on start", lens=Lens.QA))
    reports = [report("security", given[0]), report("tester", given[1], lens=Lens.QA), report("quiet")]
    done = run_pass(reports=reports)
    assert [event for event in done.events if isinstance(event, PassRecorded)] == [done.events[0]]
    assert {finding.reviewer: finding.lens for finding in findings(done)} == {
        "security": Lens.CODE_REVIEW,
        "tester": Lens.QA,
    }
    looks = {look.reviewer: (look.status, look.lens) for look in done.passed.coverage.looks}
    assert looks == {
        "quiet": (ReportStatus.EMPTY, Lens.CODE_REVIEW),
        "security": (ReportStatus.RETURNED, Lens.CODE_REVIEW),
        "tester": (ReportStatus.RETURNED, Lens.QA),
    }


@pytest.mark.parametrize(("head", "id"), [("abcdef0123", "REV-100-abcdef0"), ("", "REV-100-0000000")])
def test_a_pass_is_named_by_time_and_commit(head: str, id: str) -> None:
    """The seconds and the short commit; the second pass of one second takes the next free one."""
    first = run_pass(head=head)
    assert first.passed.id == id
    second = run_pass(ledger=Ledger(first.events), head=head)
    assert second.passed.id == id.replace("100", "101")


# --- what is known ---------------------------------------------------------------------------------------------------


def test_a_known_finding_is_reported_again_and_not_raised_again() -> None:
    """The same words on the same code are the same finding, wherever its line is now."""
    ledger = Ledger()
    add_pass(ledger, draft(**QUOTED))
    again = add_pass(ledger, draft(line=44, **QUOTED), seconds=200)
    assert [type(event) for event in again.events] == [PassRecorded, FindingChanged]
    assert [change.what for change in ledger.findings[FindingId(again.passed.finding_ids[0])].history] == [
        What.RAISED,
        What.SEEN,
    ]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("open", OPEN),
        ("fix_claimed", FindingState.REOPENED),
        ("verified_fixed", FindingState.REOPENED),
        ("reopened", FindingState.REOPENED),
        ("uncertain", OPEN),
        ("false_positive", DISMISSED),
        ("wont_fix", FindingState.WONT_FIX),
    ],
)
def test_what_becomes_of_a_finding_that_is_reported_again(state: str, expected: FindingState) -> None:
    """A claim is refuted, a fix has not held, and what a person dismissed stays dismissed."""
    ledger = Ledger()
    add_pass(ledger, draft(**QUOTED))
    turn(ledger, FindingState(state))
    again = add_pass(ledger, draft(**QUOTED), seconds=200)
    (finding,) = ledger.findings.values()
    assert finding.state is expected
    suppressed = again.passed.entries[0].disposition is Disposition.SUPPRESSED
    assert suppressed == finding.state.dismissed


def turn(ledger: Ledger, state: FindingState, by: Actor = Actor.USER) -> None:
    """Bring the first finding into a state."""
    finding = next(iter(ledger.findings.values()))
    words = {DISMISSED: "false-positive", FindingState.WONT_FIX: "wont-fix"}
    if state in words:
        events = triage(ledger, [finding.id], words[state], note="why", by=by, at="2026-11-16T01:00:00Z").events
    else:
        events = triage(ledger, [finding.id], "fixed", by=Actor.USER, at="2026-11-16T01:00:00Z").events
        changed = events[0].change
        events = (FindingChanged(id=finding.id, change=_with_state(changed, state)),)
    for event in events:
        ledger.apply(event)


def _with_state(change: Any, state: FindingState) -> Any:
    return type(change)(at=change.at, what=change.what, who=change.who, by=change.by, state=state)


@pytest.mark.parametrize(
    ("change", "reopened"),
    [
        ({}, False),
        ({"title": "The lock is not released"}, False),
        ({"severity": Severity.CRITICAL}, True),
        ({"severity": Severity.LOW}, False),
        ({"system_breaking": True}, True),
    ],
)
def test_a_dismissal_ends_with_new_evidence(change: dict[str, Any], *, reopened: bool) -> None:
    """A worse rating, or danger to the whole system: other words for the same code are none."""
    ledger = Ledger()
    add_pass(ledger, draft(**QUOTED))
    turn(ledger, DISMISSED)
    add_pass(ledger, draft(**{**QUOTED, **change}), seconds=200)
    assert next(iter(ledger.findings.values())).state is (FindingState.REOPENED if reopened else DISMISSED)


def test_a_reviewer_that_took_a_finding_back_and_reports_it_again_reopens_it() -> None:
    """Its last word counts; a person's dismissal would have held."""
    ledger = Ledger()
    add_pass(ledger, draft(**QUOTED))
    add_pass(ledger, reports=[report(rulings=(ruling(1, "withdrawn", "it is released above"),))], seconds=200)
    (finding,) = ledger.findings.values()
    assert (finding.state, finding.suppression and finding.suppression.by) == (DISMISSED, "correctness")
    add_pass(ledger, draft(**QUOTED), seconds=300)
    assert ledger.findings[finding.id].state is FindingState.REOPENED


def test_what_a_tool_suppresses_is_dismissed_as_long_as_it_does() -> None:
    """A result without its suppression is open again."""
    ledger, found = Ledger(), draft("ruff", scale="ruff", **QUOTED)
    suppressed = draft("ruff", scale="ruff", suppressed="noqa", **QUOTED)
    add_pass(ledger, suppressed)
    add_pass(ledger, suppressed, seconds=200)
    assert [finding.state for finding in ledger.findings.values()] == [FindingState.WONT_FIX]
    add_pass(ledger, found, seconds=300)
    assert [finding.state for finding in ledger.findings.values()] == [FindingState.REOPENED]


@given(
    before=st.sampled_from(Severity),
    after=st.sampled_from(Severity),
    autofix=st.sampled_from(AutofixClass),
    older=st.booleans(),
)
@settings(deadline=None)
def test_reporting_again_makes_no_finding_milder(
    before: Severity, after: Severity, autofix: AutofixClass, *, older: bool
) -> None:
    """That takes a ruling by its number; a worse severity counts at once."""
    ledger = Ledger()
    add_pass(ledger, draft(severity=before, confidence=100, **QUOTED))
    add_pass(
        ledger,
        draft(severity=after, confidence=100, autofix_class=autofix, pre_existing=older, **QUOTED),
        seconds=200,
    )
    (finding,) = ledger.findings.values()
    assert finding.severity is min(before, after, key=lambda one: one.rank)
    assert (finding.pre_existing, finding.autofix_class is AutofixClass.ADVISORY) == (False, False)


def test_a_report_below_the_gate_changes_nothing() -> None:
    """Neither does it close what its reviewer was sure of before."""
    ledger = Ledger()
    add_pass(ledger, draft(**QUOTED))
    again = add_pass(ledger, draft(confidence=25, **QUOTED), seconds=200)
    assert [item.disposition for item in again.passed.entries] == [Disposition.FILTERED]
    assert [finding.state for finding in ledger.findings.values()] == [OPEN]


# --- other reviewers -------------------------------------------------------------------------------------------------


def test_several_reviewers_of_one_defect_are_findings_in_one_line_of_work() -> None:
    """Each keeps its text and severity; the line has the worst, and the voices of all."""
    done = run_pass(
        draft("alice", 10, title="Lock is never released", severity=Severity.MEDIUM),
        draft("bob", 11, title="The lock is not released on errors", severity=Severity.CRITICAL, confidence=100),
        draft("carol", 50, title="Slow query"),
    )
    ledger = Ledger(done.events)
    first, second = ledger.lines()
    assert (first.reviewers, first.severity, len(first.members)) == (("bob", "alice"), Severity.CRITICAL, 2)
    assert {one.reviewer: one.severity for one in first.members} == {"alice": "medium", "bob": "critical"}
    assert second.reviewers == ("carol",)
    assert outcomes(done) == {"bob#1": "surviving", "alice#1": "merged", "carol#1": "surviving"}


def outcomes(done: Taken) -> dict[str, str]:
    """What became of each item."""
    return {item.input_id: str(item.disposition) for item in done.passed.entries}


def test_a_later_report_of_another_reviewer_joins_the_line_of_work() -> None:
    """If it describes the same code for sure; it is a finding of its own."""
    ledger = Ledger()
    add_pass(ledger, draft("alice", **QUOTED))
    add_pass(ledger, draft("bob", **QUOTED), seconds=200)
    (line,) = ledger.lines()
    assert [(one.reviewer, one.number) for one in line.members] == [("alice", 1), ("bob", 2)]


def test_what_a_person_dismissed_covers_the_same_words_of_another_reviewer() -> None:
    """The very same claim about the same code; any other is new, and says what it may be."""
    ledger = Ledger()
    add_pass(ledger, draft("alice", **QUOTED))
    turn(ledger, DISMISSED)
    same = add_pass(ledger, draft("bob", **QUOTED), seconds=200)
    assert [one.disposition for one in same.passed.entries] == [Disposition.SUPPRESSED]
    other = add_pass(ledger, draft("carol", title="The lock is not released on errors", **QUOTED), seconds=300)
    assert [one.disposition for one in other.passed.entries] == [Disposition.SURVIVING]
    *_, last = ledger.findings.values()
    assert (last.state, last.may_be) == (OPEN, (next(iter(ledger.findings)),))


def test_the_word_of_an_agent_covers_nobody_elses_finding() -> None:
    """What a reviewer withdrew, or an orchestrator dismissed, another reviewer may still report."""
    ledger = Ledger()
    add_pass(ledger, draft("alice", severity=Severity.LOW, **QUOTED))
    turn(ledger, FindingState.WONT_FIX, by=Actor.ORCHESTRATOR)
    add_pass(ledger, draft("bob", severity=Severity.LOW, **QUOTED), seconds=200)
    assert [finding.state for finding in ledger.findings.values()] == [FindingState.WONT_FIX, OPEN]


def test_nothing_joins_a_dismissed_finding_in_doubt() -> None:
    """A rewording is a line of work of its own."""
    ledger = Ledger()
    add_pass(ledger, draft("alice", **QUOTED))
    turn(ledger, DISMISSED)
    add_pass(ledger, draft("bob", title="Lock leaks when saving fails", **QUOTED), seconds=200)
    assert len([line for line in ledger.lines() if line.is_open]) == 1


# --- what is recorded of a pass --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", list(ReportStatus))
def test_a_pass_is_complete_if_every_answer_could_be_read(status: ReportStatus) -> None:
    """An answer in part, one that cannot be read and one that is missing leave a gap."""
    done = run_pass(reports=[report("alice", status=status, problem="it broke"), report("bob")])
    assert done.passed.coverage.complete == (status in (ReportStatus.RETURNED, ReportStatus.EMPTY))
    assert [look.reviewer for look in done.passed.coverage.gaps] == ([] if done.passed.coverage.complete else ["alice"])


def test_an_item_that_cannot_be_read_is_an_uncertain_finding_and_a_gap() -> None:
    """It blocks, its raw text is kept, and the reviewer answered in part."""
    item = draft(unreadable="it has no title", impact='{"severity": "P0"}', title="")
    done = run_pass(item, draft(n=2))
    raised = {finding.input_id: finding for finding in findings(done)}
    odd = raised["correctness#1"]
    assert (odd.state, odd.gate, odd.impact) == (FindingState.UNCERTAIN, "must", '{"severity": "P0"}')
    assert [look.status for look in done.passed.coverage.looks] == [ReportStatus.PARTIAL]


def test_a_severity_that_nobody_understands_is_uncertain() -> None:
    """It is kept as written, and blocks."""
    (finding,) = findings(run_pass(draft(severity_text="purple", severity=Severity.LOW)))
    assert (finding.state, finding.gate, finding.severity_text) == (FindingState.UNCERTAIN, "must", "purple")


def test_an_item_that_reports_a_success_is_filtered() -> None:
    """Its outcome says why."""
    done = run_pass(draft(harmless="it says that all is well"))
    assert [(item.disposition, item.reason) for item in done.passed.entries] == [
        (Disposition.FILTERED, "it says that all is well")
    ]
    assert findings(done) == []


def test_what_a_reviewer_was_given_and_did_not_rule_on_is_recorded() -> None:
    """By number, with its look; reporting the finding again is a word about it."""
    ledger = Ledger()
    add_pass(ledger, draft(**QUOTED), draft(line=50, title="Slow query", n=2))
    ids = tuple(ledger.findings)
    again = add_pass(ledger, reports=[report("correctness", draft(**QUOTED), asked=ids)], seconds=200)
    assert [look.unruled for look in again.passed.coverage.looks] == [(2,)]


def test_patterns_and_notes_are_kept_with_the_pass() -> None:
    """Patterns are numbered and never findings; risks and gaps are those of all reviewers."""
    reports = [
        report("a", residual_risks=("load",), testing_gaps=("no test",), patterns=({"name": "guard"},)),
        report("b", residual_risks=("load", "time"), patterns=({"name": "guard"}, {"name": "early return"})),
    ]
    passed = run_pass(reports=reports).passed
    assert [(one.id, one.name) for one in passed.patterns] == [("P1", "guard"), ("P2", "early return")]
    assert (passed.coverage.residual_risks, passed.coverage.testing_gaps) == (("load", "time"), ("no test",))


def test_the_same_item_twice_is_one_finding() -> None:
    """The worse of two counts, and the other says what it repeats."""
    done = run_pass(
        draft(n=1, line=10, severity=Severity.MEDIUM), draft(n=2, line=12, severity=Severity.HIGH), draft(n=3, line=90)
    )
    (worse, other) = findings(done)
    assert (worse.severity, worse.input_id, other.input_id) == (Severity.HIGH, "correctness#2", "correctness#3")
    repeated = [item for item in done.passed.entries if item.input_id == "correctness#1"]
    assert [(item.disposition, item.into) for item in repeated] == [(Disposition.MERGED, "correctness#2")]


def test_reports_without_any_item_raise_nothing() -> None:
    """An empty answer is a look, and no finding."""
    done = run_pass(reports=[*reports_of([]), report("a")])
    assert (len(done.events), [look.status for look in done.passed.coverage.looks]) == (1, [ReportStatus.EMPTY])
    assert not done.passed.entries
