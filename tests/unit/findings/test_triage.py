"""Who may decide what about a finding, what a decision leaves behind, and which findings are one line of work."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.ledgers import AT, LATER, finding, ledger_of
from tests.unit.findings.strategies import findings

from pipeline.errors import AwfError
from pipeline.findings.events import FindingChanged
from pipeline.findings.fingerprints import evidence_digest
from pipeline.findings.gate import importance
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Actor,
    Confidence,
    Evidence,
    Finding,
    FindingState,
    Gate,
    Location,
    Severity,
    Suppression,
    What,
)
from pipeline.findings.triage import (
    STATUSES,
    TriageOutcome,
    merge_lines,
    said_in_file,
    split_findings,
    triage,
)

QUOTED = (Evidence(path="src/a.py", start=1, quote="store.save(token)"),)
BY_USER: dict[str, Any] = {"state": FindingState.FALSE_POSITIVE, "suppression": Suppression(by="user", reason="no")}
BY_AGENT: dict[str, Any] = {
    "state": FindingState.WONT_FIX,
    "suppression": Suppression(by=Actor.ORCHESTRATOR, reason="no"),
}


def decide(known: Finding | Ledger, status: str, *names: str, **more: Any) -> TriageOutcome:
    """A decision of a person about findings, by default the first."""
    ledger = known if isinstance(known, Ledger) else ledger_of(known)
    request: dict[str, Any] = {"note": "as discussed", "by": Actor.USER, "at": AT} | more
    return triage(ledger, names or ["1"], status, **request)


def event_of(done: TriageOutcome) -> FindingChanged:
    (event,) = done.events
    assert done.refused == {}
    return event


def is_refused(done: TriageOutcome) -> bool:
    return done.events == () and list(done.refused) == ["1"]


@pytest.mark.parametrize(
    ("before", "status", "after"),
    [
        (FindingState.OPEN, "false-positive", FindingState.FALSE_POSITIVE),
        (FindingState.OPEN, "wont-fix", FindingState.WONT_FIX),
        (FindingState.OPEN, "fixed", FindingState.VERIFIED_FIXED),
        (FindingState.FIX_CLAIMED, "fixed", FindingState.VERIFIED_FIXED),
        (FindingState.FIX_CLAIMED, "open", FindingState.REOPENED),
        (FindingState.VERIFIED_FIXED, "open", FindingState.REOPENED),
        (FindingState.WONT_FIX, "open", FindingState.OPEN),
        (FindingState.UNCERTAIN, "open", FindingState.OPEN),
        (FindingState.FALSE_POSITIVE, "wont-fix", FindingState.WONT_FIX),
    ],
)
def test_a_person_decides_everything(before: FindingState, status: str, after: FindingState) -> None:
    """A person may confirm a fix and dismiss anything; what was fixed and is open again is reopened."""
    known = finding(state=before, gate=Gate.MUST, severity=Severity.CRITICAL, system_breaking=True)
    assert event_of(decide(known, status)).change.state is after


@pytest.mark.parametrize("by", [Actor.FINISH_TASK, Actor.ORCHESTRATOR, Actor.REVALIDATE])
@pytest.mark.parametrize("before", [FindingState.OPEN, FindingState.REOPENED, FindingState.FIX_CLAIMED])
def test_only_a_person_confirms_a_fix_by_a_decision(by: Actor, before: FindingState) -> None:
    """A reviewer rules in its answer, and whoever made the fix cannot also confirm it."""
    assert is_refused(decide(finding(state=before), "fixed", by=by))


def test_only_a_person_says_that_an_uncertain_finding_is_a_defect() -> None:
    """It blocks until somebody has looked."""
    assert is_refused(decide(finding(state=FindingState.UNCERTAIN), "open", by=Actor.ORCHESTRATOR))


@pytest.mark.parametrize("status", ["false-positive", "wont-fix"])
@pytest.mark.parametrize("note", ["", "  \n"])
def test_a_dismissal_needs_a_note(status: str, note: str) -> None:
    """A dismissal without a reason is refused; other decisions need none."""
    assert is_refused(decide(finding(), status, note=note))
    assert decide(finding(), "fixed", note="").refused == {}


def test_a_dismissal_is_bound_to_the_code_it_was_made_for() -> None:
    """Reason, author, expiry and the digest of the evidence are kept as long as it is dismissed."""
    known = finding(evidence=QUOTED)
    event, ledger = event_of(decide(known, "wont-fix", expires="2026-12-31")), ledger_of(known)
    assert (event.at, event.change.by, event.change.what, event.change.note) == (
        AT,
        "user",
        What.TRIAGE,
        "as discussed",
    )
    ledger.apply(event)
    held = Suppression(reason="as discussed", by="user", expires="2026-12-31", digest=evidence_digest(known))
    assert ledger.findings[known.id].suppression == held
    ledger.apply(event_of(decide(ledger, "open")))
    assert ledger.findings[known.id].suppression is None


@pytest.mark.parametrize(
    ("status", "expires"), [("wont-fix", "soon"), ("wont-fix", "2026-02-28"), ("fixed", "2026-12-31")]
)
def test_an_impossible_expiry_is_refused(status: str, expires: str) -> None:
    """It must be a date, must not have passed, and belongs to a dismissal. Today is the last day possible."""
    assert is_refused(decide(finding(), status, expires=expires))
    assert decide(finding(), "wont-fix", expires="2026-03-01").refused == {}


@pytest.mark.parametrize(
    ("before", "status"),
    [(FindingState.OPEN, "open"), (FindingState.REOPENED, "open"), (FindingState.VERIFIED_FIXED, "fixed")],
)
def test_a_decision_that_changes_nothing_is_refused(before: FindingState, status: str) -> None:
    """What is open is not opened, and what is fixed is not fixed again."""
    assert is_refused(decide(finding(state=before), status))


@pytest.mark.parametrize("status", ["open", "wont-fix"])
def test_an_agent_does_not_take_back_what_a_person_decided(status: str) -> None:
    """What a person dismissed stays dismissed; what an agent dismissed, an agent may open or dismiss otherwise."""
    assert is_refused(decide(finding(**BY_USER), status, by=Actor.ORCHESTRATOR))
    agents = finding(**BY_AGENT)
    assert event_of(decide(agents, "open", by=Actor.ORCHESTRATOR)).change.state is FindingState.OPEN
    assert event_of(decide(agents, "false-positive", by=Actor.FINISH_TASK)).change.state is FindingState.FALSE_POSITIVE


@pytest.mark.parametrize(
    "known",
    [
        finding(state=FindingState.FIX_CLAIMED),
        finding(state=FindingState.VERIFIED_FIXED),
        finding(severity=Severity.CRITICAL, system_breaking=True),
        finding(gate=Gate.MUST),
        finding(severity=Severity.CRITICAL),
        finding(state=FindingState.UNCERTAIN),
    ],
    ids=["claimed", "verified", "endangers the system", "must", "critical advice", "uncertain"],
)
def test_what_an_agent_may_not_dismiss(known: Finding) -> None:
    """A claimed or confirmed fix, and whatever blocks by itself."""
    assert is_refused(decide(known, "wont-fix", by=Actor.ORCHESTRATOR))


def test_a_refusal_does_not_stop_the_rest() -> None:
    """One wrong name does not stop the others; a finding named twice is decided once."""
    ledger = ledger_of(finding(1), finding(2))
    done = decide(ledger, "fixed", "1", finding(1).id, "nope", "", "#2")
    assert [event.id for event in done.events] == [finding(1).id, finding(2).id]
    assert list(done.refused) == ["nope", ""]


def test_an_unknown_status_is_refused() -> None:
    """Statuses are a closed vocabulary."""
    assert is_refused(decide(finding(), "closed"))


@settings(max_examples=50, deadline=None)
@given(findings(), st.lists(st.tuples(st.sampled_from(STATUSES), st.sampled_from(Actor)), max_size=5))
def test_whatever_is_decided_history_only_grows_and_no_agent_confirms_a_fix(
    known: Finding, said: list[tuple[str, Actor]]
) -> None:
    """000-41, 000-43: the old history is the beginning of the new one."""
    ledger = ledger_of(known)
    for status, by in said:
        before = ledger.findings[known.id].history
        for event in decide(ledger, status, by=by).events:
            assert by is Actor.USER or event.change.state is not FindingState.VERIFIED_FIXED
            ledger.apply(event)
        assert ledger.findings[known.id].history[: len(before)] == before


def test_what_matters_most_comes_first() -> None:
    """Gate, severity, confidence, file, line, number."""
    expected = [
        finding(9, gate=Gate.MUST, severity=Severity.LOW),
        finding(8, severity=Severity.CRITICAL, confidence=Confidence(value=100)),
        finding(7, severity=Severity.CRITICAL, confidence=Confidence(value=50)),
        finding(6, locations=(Location(path="a.py", start=9),)),
        finding(5, locations=(Location(path="b.py", start=2),)),
        finding(3, locations=(Location(path="b.py", start=10),)),
        finding(4, locations=(Location(path="b.py", start=10),)),
    ]
    by_number = sorted(expected, key=lambda one: one.number)
    assert sorted(by_number, key=importance) == expected


# --- lines of work ---------------------------------------------------------------------------------------------------


def joined(first: dict[str, Any], second: dict[str, Any]) -> Ledger:
    """A ledger with a line of work of two findings."""
    return ledger_of(finding(1, **first), finding(2, reviewer="security", line=finding(1).id, **second))


def changed_ids(done: TriageOutcome) -> dict[int, FindingState | None]:
    return {int(event.id[-1]): event.change.state for event in done.events}


def test_a_decision_on_a_number_counts_for_all_members() -> None:
    """Whichever member is named; with `only` it counts for that one alone."""
    ledger = joined({}, {"state": FindingState.FIX_CLAIMED})
    both = {1: FindingState.WONT_FIX, 2: FindingState.WONT_FIX}
    assert changed_ids(decide(ledger, "wont-fix", "1")) == both
    assert changed_ids(decide(ledger, "wont-fix", "2")) == both
    assert changed_ids(decide(ledger, "wont-fix", "2", only=True)) == {2: FindingState.WONT_FIX}


def test_opening_a_line_of_work_brings_back_its_dismissed_members_alone() -> None:
    """What was verified stays verified, unless it is the one that is named."""
    ledger = joined({"state": FindingState.VERIFIED_FIXED}, BY_USER)
    assert changed_ids(decide(ledger, "open", "2")) == {2: FindingState.OPEN}
    assert changed_ids(decide(ledger, "open", "1")) == {1: FindingState.REOPENED, 2: FindingState.OPEN}


def test_a_line_of_work_is_decided_as_a_whole_or_not_at_all() -> None:
    """An agent that may not dismiss one member dismisses none."""
    ledger = joined({}, {"gate": Gate.MUST})
    assert is_refused(decide(ledger, "wont-fix", by=Actor.ORCHESTRATOR))
    assert changed_ids(decide(ledger, "wont-fix", by=Actor.ORCHESTRATOR, only=True)) == {1: FindingState.WONT_FIX}


@pytest.fixture
def three() -> Ledger:
    """Three findings with different states and severities, numbered from 1."""
    states = (FindingState.OPEN, FindingState.WONT_FIX, FindingState.FIX_CLAIMED)
    return ledger_of(*(finding(number, state=state) for number, state in enumerate(states, 1)))


def named(ledger: Ledger, *numbers: int) -> list[Finding]:
    return [known for number in numbers if (known := ledger.by_number(number))]


def apply(ledger: Ledger, events: Iterable[FindingChanged]) -> None:
    for event in events:
        ledger.apply(event)


def merge(ledger: Ledger, *numbers: int, into: int, note: str = "") -> None:
    (target,) = named(ledger, into)
    apply(ledger, merge_lines(ledger, named(ledger, *numbers), target, LATER, note))


def split(ledger: Ledger, *numbers: int) -> None:
    apply(ledger, split_findings(ledger, named(ledger, *numbers), LATER))


def lines(ledger: Ledger) -> set[tuple[int, tuple[int, ...]]]:
    """The number of each line of work, with the numbers of its members."""
    return {(line.number, tuple(sorted(one.number for one in line.members))) for line in ledger.lines()}


def test_a_merge_changes_nothing_about_its_members_and_can_be_split_again(three: Ledger) -> None:
    """Each keeps its state, severity and text; the history remembers the merge, with the note."""

    def kept() -> list[dict[str, Any]]:
        return [one.model_dump(exclude={"history", "updated_at"}) for one in three.findings.values()]

    before = kept()
    merge(three, 1, into=2, note="one fix resolves both")
    assert lines(three) == {(2, (1, 2)), (3, (3,))}
    (change,) = (one for one in three.findings[finding(1).id].history if one.what is What.JOINED)
    assert (change.note, change.ref) == ("one fix resolves both", finding(2).id)
    split(three, 1)
    assert kept() == before


def test_what_is_merged_brings_its_whole_line_of_work(three: Ledger) -> None:
    """Also into a member of another one, and each member moves once."""
    merge(three, 1, into=2)
    merge(three, 1, 2, into=3)
    assert lines(three) == {(3, (1, 2, 3))}
    assert [one.what for one in three.findings[finding(2).id].history].count(What.JOINED) == 1


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((3,), {(3, (3,)), (1, (1, 2))}),
        ((1,), {(1, (1,)), (3, (2, 3))}),
        ((3, 2), {(1, (1,)), (2, (2,)), (3, (3,))}),
        ((2, 3), {(1, (1,)), (2, (2,)), (3, (3,))}),
        ((1, 2, 3), {(1, (1,)), (2, (2,)), (3, (3,))}),
    ],
)
def test_what_is_split_has_a_line_of_work_of_its_own(
    three: Ledger, numbers: tuple[int, ...], expected: set[tuple[int, tuple[int, ...]]]
) -> None:
    """In whatever order; without the finding whose number it has, the line goes on under its oldest member."""
    merge(three, 1, 2, into=3)
    split(three, *numbers)
    assert lines(three) == expected


def test_an_impossible_merge_or_split_is_an_error(three: Ledger) -> None:
    """Twice, into itself, into its own member; and a finding alone has nothing to be split from."""
    merge(three, 1, into=2)
    for one, into in ((1, 2), (2, 1), (3, 3)):
        with pytest.raises(AwfError):
            merge(three, one, into=into)
    with pytest.raises(AwfError):
        split(three, 3)


# --- a status in a file ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "status", "note", "expected"),
    [
        ({}, "fixed", "", (What.CLAIM, "fixed", FindingState.FIX_CLAIMED)),
        ({}, "wont-fix", "by design", (What.TRIAGE, "wont-fix", FindingState.WONT_FIX)),
        ({}, "wont-fix", "", (What.CLAIM, "wrong", None)),
        ({"gate": Gate.MUST}, "false-positive", "by design", (What.CLAIM, "wrong", None)),
        ({"state": FindingState.VERIFIED_FIXED}, "open", "", (What.TRIAGE, "open", FindingState.REOPENED)),
        (BY_AGENT, "open", "", (What.TRIAGE, "open", FindingState.REOPENED)),
    ],
)
def test_what_a_status_in_a_file_means(
    known: dict[str, Any], status: str, note: str, expected: tuple[What, str, FindingState | None]
) -> None:
    """0-37: it has the rights of an agent: it claims a fix, dismisses what an agent may dismiss, or disputes."""
    said = said_in_file(finding(**known), status, note, at=AT, who="file")
    assert isinstance(said, FindingChanged)
    assert (said.change.what, said.change.word, said.change.state) == expected


@pytest.mark.parametrize("known", [{}, {"state": FindingState.REOPENED}, {"state": FindingState.UNCERTAIN}])
def test_a_status_in_a_file_that_says_what_is_known_changes_nothing(known: dict[str, Any]) -> None:
    """An open finding is open, and a claimed fix is claimed."""
    assert said_in_file(finding(**known), "open", "", at=AT, who="file") is None
    claimed = finding(state=FindingState.FIX_CLAIMED)
    assert said_in_file(claimed, "fixed", "", at=AT, who="file") is None


@pytest.mark.parametrize(
    ("known", "status"), [({}, "verified"), (BY_USER, "open"), ({"state": FindingState.VERIFIED_FIXED}, "wont-fix")]
)
def test_a_status_in_a_file_is_refused(known: dict[str, Any], status: str) -> None:
    """Nobody but a reviewer verifies, and nobody but a person takes back what a person decided."""
    assert isinstance(said_in_file(finding(**known), status, "a reason", at=AT, who="file"), str)
