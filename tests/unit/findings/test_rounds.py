"""What each round of a run did, and when a loop is stalled. Only rulings count."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import plain

from pipeline.findings.events import (
    Coverage,
    FindingRaised,
    FixAttempted,
    LinkAdded,
    NotReported,
    Pass,
    PassRecorded,
    ReportedAgain,
    RulingMade,
    StateChanged,
)
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    AutofixClass,
    FindingId,
    FindingState,
    FixAttempt,
    Link,
    Observed,
    Owner,
    PassId,
    ReportStatus,
    Severity,
    Strength,
    Vote,
)
from pipeline.findings.rounds import Round, rounds, stall_reason

AT = "2026-01-02T03:04:05Z"


def _vote(reviewer: str, pass_id: str, title: str) -> Vote:
    rest: dict[str, Any] = {"severity": Severity.HIGH, "confidence": 100}
    rest |= {"autofix_class": AutofixClass.MANUAL, "owner": Owner.HUMAN}
    return Vote(reviewer=reviewer, pass_id=pass_id, title=title, **rest)


@dataclass
class Story:
    """Rounds of one run, told to a ledger."""

    ledger: Ledger = field(default_factory=Ledger)
    number: int = 0

    def round(self, stage: str = "rev") -> None:
        """A review begins."""
        self.number += 1
        coverage = Coverage(reviewers={stage: ReportStatus.RETURNED})
        passed = Pass(id=self.now, started_at=AT, run="r", round=self.number, stage=stage, coverage=coverage)
        self.ledger.apply(PassRecorded(at=AT, assessment=passed))

    @property
    def now(self) -> PassId:
        return PassId(f"REV-{self.number}-abc")

    def find(self, name: str, cause: str = "", by: str = "rev", title: str = "", *, guessed: bool = False) -> None:
        """The review reports a defect: one that it knows, or a new one, on lines that the fix of another wrote."""
        id = FindingId(f"fnd_{name}")
        votes = (_vote(by, self.now, title or name),)
        if id not in self.ledger.findings:
            finding = plain(id=id, signature=f"sha256:{name}", pass_id=self.now, votes=votes, sources=(by,))
            self.ledger.apply(FindingRaised(at=AT, finding=finding))
            if cause:
                self.ledger.apply(LinkAdded(at=AT, id=id, link=Link(kind="caused_by", to=f"fnd_{cause}")))
            return
        known = self.ledger.findings[id]
        strength = Strength.FUZZY if guessed else Strength.EXACT
        seen = ReportedAgain(
            at=AT, id=id, pass_id=self.now, observed=Observed.UNCHANGED, strength=strength, votes=votes
        )
        self.ledger.apply(seen)
        if known.state is FindingState.FIX_CLAIMED:
            self.turn(id, FindingState.REOPENED, "it was said to be fixed")
            self.ledger.apply(FixAttempted(at=AT, id=id, attempt=FixAttempt(run="r", outcome="not_fixed")))
        elif known.state is FindingState.VERIFIED_FIXED:
            self.turn(id, FindingState.REOPENED, "regression: it was fixed, and it is back")

    def miss(self, name: str) -> None:
        self.ledger.apply(NotReported(at=AT, id=FindingId(f"fnd_{name}"), pass_id=self.now))

    def fix(self, name: str, state: FindingState = FindingState.FIX_CLAIMED) -> None:
        """Somebody says what became of a defect, outside of any pass."""
        self.ledger.apply(StateChanged(at=AT, id=FindingId(f"fnd_{name}"), state=state, by="finish-task"))

    def turn(self, id: FindingId, state: FindingState, note: str) -> None:
        """The review itself makes something of a defect."""
        self.ledger.apply(StateChanged(at=AT, id=id, state=state, by="orchestrator", note=note, pass_id=self.now))

    def dispute(self, name: str) -> None:
        """The fixer calls a defect wrong."""
        wrong = FixAttempt(run="r", by="fix", outcome="wrong")
        self.ledger.apply(FixAttempted(at=AT, id=FindingId(f"fnd_{name}"), attempt=wrong))

    def rule(self, name: str, ruling: str) -> None:
        """The review rules on a defect by its number."""
        ruled = RulingMade(at=AT, id=FindingId(f"fnd_{name}"), by="rev", ruling=ruling, why="so", pass_id=self.now)
        self.ledger.apply(ruled)

    def stalled(self) -> str:
        return stall_reason(self.ledger, "r")


def test_the_table_of_rounds() -> None:
    """What a round resolved, carried over, found and brought back, by the numbers of findings."""
    story = Story()
    story.round()
    story.find("a")
    story.find("b")
    story.fix("a")
    story.round()
    story.miss("a")
    story.find("b")
    story.find("c", cause="a")
    story.fix("a", FindingState.VERIFIED_FIXED)
    story.round()
    story.find("a")
    story.miss("b")
    assert rounds(story.ledger, "r") == [
        Round(1, new=(1, 2)),
        Round(2, resolved=(1,), carried=(2,), new=(3,), caused_by_fix=(3,)),
        Round(3, resolved=(2, 3), regressed=(1,)),
    ]
    assert rounds(story.ledger, "another run") == []


def test_a_finding_that_is_not_fixed_twice_stalls_the_loop() -> None:
    """Once is not a sign; twice by the reviewer's own ruling is."""
    story = Story()
    said = []
    for _ in range(3):
        story.round()
        story.find("a")
        said.append(story.stalled())
        story.fix("a")
    assert said[:2] == ["", ""]
    assert said[2].startswith("finding #1 ")


def test_a_fix_that_was_postponed_is_not_a_ruling() -> None:
    """A fixer that answers "not fixed" claims nothing that could be refuted."""
    story = Story()
    for _ in range(4):
        story.round()
        story.find("a")
        assert story.stalled() == ""
        put_off = FixAttempt(run="r", by="fix", outcome="not_fixed", what="one comes after the other")
        story.ledger.apply(FixAttempted(at=AT, id=FindingId("fnd_a"), attempt=put_off))


def test_an_unclaimed_fix_is_not_a_ruling() -> None:
    """A reviewer that omits a finding in some rounds claims nothing."""
    story = Story()
    for _ in range(4):
        story.round()
        story.find("a")
        assert story.stalled() == ""
        story.round()
        story.turn(FindingId("fnd_a"), FindingState.FIX_CLAIMED, "its lines were changed, and nobody reported it again")


def test_an_answer_of_a_reviewer_is_a_ruling() -> None:
    """It comes before the pass, in which the finding is open already."""
    story = Story()
    for _ in range(3):
        story.round()
        if story.number > 1:
            story.fix("a", FindingState.REOPENED)
        story.find("a")
        said = story.stalled()
        story.fix("a")
    assert said.startswith("finding #1 ")


@pytest.mark.parametrize("again", ["upheld", "not_fixed", "reported", "both"])
def test_a_dispute_that_is_upheld_twice_stalls_the_loop(again: str) -> None:
    """0-51: by rulings, or by reporting it again; a review that does both upholds it once."""
    story, said = Story(), []
    for _ in range(3):
        story.round()
        if again in ("reported", "both") or story.number == 1:
            story.find("a")
        if again != "reported" and story.number > 1:
            story.rule("a", "upheld" if again == "both" else again)
        said.append(story.stalled())
        story.dispute("a")
    assert said[:2] == ["", ""]
    assert said[2].startswith("finding #1 ")


def test_a_lowered_finding_is_not_upheld() -> None:
    """0-51: the reviewer gave way, so that no person is needed yet; the finding is still carried."""
    story = Story()
    story.round()
    story.find("a")
    for _ in range(3):
        story.dispute("a")
        story.round()
        story.rule("a", "lowered")
        assert story.stalled() == ""
    assert rounds(story.ledger, "r")[-1] == Round(4, carried=(1,))


def test_rulings_before_the_run_do_not_count() -> None:
    """Refuted fixes of an earlier run are not this run's."""
    story = Story()
    story.round()
    story.find("a")
    for state in (FindingState.FIX_CLAIMED, FindingState.REOPENED) * 2:
        early = StateChanged(at="2026-01-01T00:00:00Z", id=FindingId("fnd_a"), state=state, by="finish-task")
        story.ledger.apply(early)
    assert story.stalled() == ""


def test_a_fuzzy_match_counts_only_with_the_same_title() -> None:
    """A failed fix changes the line: a report beside it in the same words is the same defect, in others perhaps not."""
    for title, expected in (("the handle leaks still", True), ("an alarm ends other work", False)):
        for state in (FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED):
            story = Story()
            for _ in range(3):
                story.round()
                story.find("a", title=title if story.number > 1 else "the handle leaks", guessed=story.number > 1)
                said = story.stalled()
                story.fix("a", state)
            assert bool(said) is expected


def test_a_round_ends_when_a_stage_reviews_again() -> None:
    """A check that runs more often than the review keeps in step, and resolves only its own findings."""
    story = Story()
    story.round("lint")
    story.find("a", by="lint")
    story.round("lint")  # `a` is gone; only now the review is reached
    story.round("rev")
    story.find("b")
    story.fix("b")
    story.round("lint")
    assert rounds(story.ledger, "r")[-1] == Round(3, carried=(2,))
    story.round("rev")
    story.find("b")
    assert rounds(story.ledger, "r") == [Round(1, new=(1,)), Round(2, resolved=(1,), new=(2,)), Round(3, carried=(2,))]


def test_a_regression_stalls_the_loop() -> None:
    """The first time is enough."""
    story = Story()
    story.round()
    story.find("a")
    story.fix("a", FindingState.VERIFIED_FIXED)
    story.round()
    story.find("b")
    assert story.stalled() == ""
    story.round()
    story.find("a")
    assert story.stalled().startswith("finding #1 ")


def test_fixes_that_make_findings_stall_the_loop() -> None:
    """One round may happen; in two rounds in a row the fixing itself is wrong."""
    story = Story()
    said = []
    for number, name in enumerate("abc"):
        story.round()
        story.find(name, cause="abc"[number - 1] if number else "")
        said.append(story.stalled())
        story.fix(name)
    assert said[:2] == ["", ""]
    assert said[2].startswith("finding #3 ")


def test_new_findings_every_round_are_not_a_signal() -> None:
    """The maximum number of rounds bounds them, not a guess."""
    story = Story()
    for number in range(12):
        story.round()
        story.find(f"n{number}")
        assert story.stalled() == ""
        story.fix(f"n{number}")


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), min_size=1, max_size=12))
def test_a_loop_that_makes_progress_is_not_stalled(defects: list[tuple[int, int]]) -> None:
    """Each defect is found in some round and fixed some rounds later, as the fixer says: however slow, it converges."""
    story = Story()
    for number in range(1, 18):
        story.round()
        for index, (found, slow) in enumerate(defects):
            if found <= number <= found + slow:
                story.find(f"d{index}")
            elif number == found + slow + 1:
                story.miss(f"d{index}")
        assert story.stalled() == ""
        for index, (found, slow) in enumerate(defects):
            if number == found + slow:
                story.fix(f"d{index}")
    last = rounds(story.ledger, "r")[-1]
    assert (last.carried, last.new, last.regressed) == ((), (), ())
