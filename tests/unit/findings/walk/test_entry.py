"""Which findings a walk begins with, in which order, and what is recommended for each."""

import pytest
from tests.unit.findings.walk.made import ISSUES, LINEAR, advisory, finding, items, vote

from pipeline.findings.model import AutofixClass, Finding, FindingState, Location, Severity
from pipeline.findings.scales import confidence_from_anchor
from pipeline.findings.trackers.ticket import NO_TRACKER, TrackerStatus
from pipeline.findings.walk.present import Action, recommended, tie_break, voices, walk_items


def ids(*findings: Finding, advice: bool = False) -> list[int]:
    return [item.finding.number for item in walk_items(findings, ISSUES, advisory=advice)]


def test_002_02_the_gravest_comes_first_then_the_surest_then_by_place() -> None:
    """002-02: severity P0 to P3, then anchor descending, file and line."""
    found = [
        finding(1, severity=Severity.LOW),
        finding(2, locations=(Location(path="b.py", start=9),)),
        finding(3, locations=(Location(path="a.py", start=9),)),
        finding(4, locations=(Location(path="a.py", start=2),)),
        finding(5, confidence=confidence_from_anchor(75), locations=()),
        finding(6, severity=Severity.CRITICAL),
        finding(7, severity=Severity.MEDIUM),
    ]
    assert ids(*found) == [6, 4, 3, 2, 5, 7, 1]


@pytest.mark.parametrize(
    ("severity", "anchor", "asked"),
    [
        (Severity.CRITICAL, 50, True),
        (Severity.CRITICAL, 25, False),
        (Severity.HIGH, 50, False),
        (Severity.LOW, 75, True),
    ],
)
def test_002_02_only_what_passed_the_confidence_gate(severity: Severity, anchor: int, *, asked: bool) -> None:
    """002-02: anchor 75 and above, and a P0 from 50."""
    assert ids(finding(severity=severity, confidence=confidence_from_anchor(anchor))) == [1] * asked


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (AutofixClass.SAFE_AUTO, False),
        (AutofixClass.GATED_AUTO, True),
        (AutofixClass.MANUAL, True),
        (AutofixClass.ADVISORY, False),
    ],
)
def test_002_02_only_what_needs_a_decision(kind: AutofixClass, *, asked: bool) -> None:
    """002-02: gated_auto and manual findings."""
    assert ids(finding(autofix_class=kind)) == [1] * asked


def test_002_02_advice_only_when_it_is_routed_here() -> None:
    """002-02: advisory findings are included when they were sent here."""
    assert ids(advisory(), advice=True) == [1]
    assert ids(advisory(), advice=False) == []


@pytest.mark.parametrize("state", FindingState)
def test_what_is_settled_is_not_asked_again(state: FindingState) -> None:
    """002-02: only findings that are open, whatever was decided about others."""
    assert ids(finding(state=state)) == [1] * state.active


def test_what_was_there_before_the_change_is_told_elsewhere() -> None:
    """002-02: a pre-existing finding is not walked through."""
    assert ids(finding(pre_existing=True)) == []


@pytest.mark.parametrize(
    ("actions", "winner"),
    [
        (("apply", "defer"), Action.DEFER),
        (("apply", "skip"), Action.SKIP),
        (("skip", "defer"), Action.SKIP),
        (("acknowledge", "apply"), Action.APPLY),
        (("apply", "apply"), Action.APPLY),
        ((), None),
    ],
)
def test_c_18_the_most_careful_action_breaks_a_tie(actions: tuple[str, ...], winner: Action | None) -> None:
    """C-18, C-19: Skip before Defer before Apply before Acknowledge."""
    assert tie_break(map(Action, actions)) is winner
    assert tie_break(map(Action, reversed(actions))) is winner


def test_002_04_what_reviewers_advise_is_recommended() -> None:
    """002-04: the recommendation is the tie-break's, whatever the finding itself suggests."""
    votes = (vote("correctness", "apply"), vote("testing", "skip"))
    assert recommended(finding(votes=votes), LINEAR) is Action.SKIP


def test_002_04_a_reviewers_last_word_counts() -> None:
    """002-04: a reviewer who came to another opinion is heard once."""
    votes = (vote("correctness", "skip"), vote("correctness", ""), vote("correctness", "apply"), vote("x", "dance"))
    assert [voice.action for voice in voices(finding(votes=votes))] == [Action.APPLY]


@pytest.mark.parametrize(
    ("one", "sinks", "action"),
    [
        (finding(), LINEAR, Action.APPLY),
        (finding(autofix_class=AutofixClass.MANUAL), NO_TRACKER, Action.APPLY),
        (finding(fix=None), ISSUES, Action.DEFER),
        (finding(fix=None), NO_TRACKER, Action.SKIP),
        (advisory(), LINEAR, Action.ACKNOWLEDGE),
        (advisory(fix="Do it."), LINEAR, Action.ACKNOWLEDGE),
    ],
)
def test_002_04_without_advice_the_finding_itself_suggests_what_to_do(
    one: Finding, sinks: TrackerStatus, action: Action
) -> None:
    """002-04: a fix is applied, advice acknowledged; without a fix a ticket is filed, where that is possible."""
    assert recommended(one, sinks) is action


def test_002_04_the_recommendation_is_fixed_at_the_entry() -> None:
    """002-04: it is shown later, and not thought over."""
    assert items(finding(fix=None), sinks=ISSUES)[0].recommended is Action.DEFER
