"""What each round of a run did, and when a loop is stalled. Only what was said counts."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import plain

from pipeline.findings.events import Coverage, FindingChanged, FindingRaised, Look, Pass, PassRecorded
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import STAGE, Actor, Change, FindingId, FindingState, PassId, ReportStatus, What
from pipeline.findings.rounds import Round, rounds, stall_reason

AT = "2026-01-02T03:04:05Z"


@dataclass
class Story:
    """Rounds of one run, told to a ledger."""

    ledger: Ledger = field(default_factory=Ledger)
    number: int = 0
    run: str = "r"

    def round(self) -> None:
        """A review begins."""
        self.number += 1
        coverage = Coverage(looks=(Look(reviewer="rev", status=ReportStatus.RETURNED),))
        passed = Pass(id=self.now, started_at=AT, review="0badcafe", run=self.run, round=self.number, coverage=coverage)
        self.ledger.apply(PassRecorded(at=AT, assessment=passed))

    @property
    def now(self) -> PassId:
        return PassId(f"REV-{self.number}-abc")

    def find(self, name: str, **more: Any) -> None:
        """The review reports a defect: a new one, or one that it knows."""
        id = FindingId(f"fnd_{name}")
        known = self.ledger.findings.get(id)
        if known is None:
            finding = plain(id=id, signature=f"sha256:{name}", pass_id=self.now, **more)
            self.ledger.apply(FindingRaised(at=AT, finding=finding))
            return
        state, note = known.state, ""
        if state is FindingState.FIX_CLAIMED:
            state, note = FindingState.REOPENED, "it was said to be fixed, and it was reported again"
        elif state is FindingState.VERIFIED_FIXED:
            state, note = FindingState.REOPENED, "regression: it was fixed, and it is back"
        self._say(name, What.SEEN, by=Actor.ORCHESTRATOR, note=note, state=state, pass_id=self.now)

    def rule(self, name: str, word: str) -> None:
        """The review rules on a defect by its number."""
        known = self.ledger.findings[FindingId(f"fnd_{name}")]
        state = FindingState.VERIFIED_FIXED if word == "fixed" else known.state
        if word != "fixed" and known.state is FindingState.FIX_CLAIMED:
            state = FindingState.REOPENED
        self._say(name, What.RULING, by=Actor.REVALIDATE, word=word, state=state, pass_id=self.now)

    def claim(self, name: str, word: str = "fixed") -> None:
        """The fixer says what became of a defect, outside of any pass."""
        state = FindingState.FIX_CLAIMED if word == "fixed" else None
        self._say(name, What.CLAIM, by=Actor.FINISH_TASK, word=word, state=state)

    def stalled(self) -> str:
        return stall_reason(self.ledger, "r")

    def _say(self, name: str, what: What, by: Actor, **more: Any) -> None:
        change = Change(at=AT, what=what, who="rev", by=by, run=self.run, **more)
        self.ledger.apply(FindingChanged(id=FindingId(f"fnd_{name}"), change=change))


def test_the_table_of_rounds() -> None:
    """What a round resolved, carried over, found and brought back, by the numbers of findings."""
    story = Story()
    story.round()
    story.find("a")
    story.find("b")
    story.claim("a")
    story.round()
    story.rule("a", "fixed")
    story.find("b")
    story.find("c")
    story.round()
    story.find("a")
    story.rule("b", "fixed")
    assert rounds(story.ledger, "r") == [
        Round(1, new=(1, 2)),
        Round(2, resolved=(1,), carried=(2,), new=(3,)),
        Round(3, resolved=(2,), carried=(3,), regressed=(1,)),
    ]
    assert rounds(story.ledger, "r")[-1].outstanding == {1, 3}
    assert rounds(story.ledger, "another run") == []


def test_what_nobody_mentions_is_carried() -> None:
    """A round that says nothing of a finding, claimed or not, has not resolved it."""
    story = Story()
    story.round()
    story.find("a")
    story.find("b")
    story.claim("a")
    story.round()
    assert rounds(story.ledger, "r")[-1] == Round(2, carried=(1, 2))


def test_passes_of_one_round_are_one_row() -> None:
    """Reviews one after the other share a round, and the last of them decides what is open after it."""
    story = Story()
    story.round()
    story.find("a")
    second = Pass(id=PassId("REV-9-abc"), started_at=AT, review="0badcafe", run="r", round=1)
    story.ledger.apply(PassRecorded(at=AT, assessment=second))
    found = plain(id="fnd_b", signature="sha256:b", pass_id=second.id)
    story.ledger.apply(FindingRaised(at=AT, finding=found))
    assert rounds(story.ledger, "r") == [Round(1, new=(1, 2))]


@pytest.mark.parametrize("again", ["reported", "not_fixed", "upheld", "both"])
def test_a_finding_that_is_not_fixed_twice_stalls_the_loop(again: str) -> None:
    """Once is not a sign; twice is, by a ruling or by a new report, and a review that does both refutes it once."""
    story, said = Story(), []
    for _ in range(3):
        story.round()
        if again in ("reported", "both") or story.number == 1:
            story.find("a")
        if again != "reported" and story.number > 1:
            story.rule("a", "not_fixed" if again == "both" else again)
        said.append(story.stalled())
        story.claim("a")
    assert said[:2] == ["", ""]
    assert said[2].startswith("finding #1 ")


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
        story.claim("a", "wrong")
    assert said[:2] == ["", ""]
    assert said[2].startswith("finding #1 ")


def test_a_lowered_finding_is_not_upheld() -> None:
    """0-51: the reviewer gave way, so that no person is needed yet; the finding is still carried."""
    story = Story()
    story.round()
    story.find("a")
    for _ in range(3):
        story.claim("a", "wrong")
        story.round()
        story.rule("a", "lowered")
        assert story.stalled() == ""
    assert rounds(story.ledger, "r")[-1] == Round(4, carried=(1,))


@pytest.mark.parametrize("claim", ["", "not_fixed"])
def test_without_a_claimed_fix_nothing_is_refuted(claim: str) -> None:
    """A fixer that postpones a finding, or never mentions it, claims nothing."""
    story = Story()
    for _ in range(4):
        story.round()
        story.find("a")
        assert story.stalled() == ""
        if claim:
            story.claim("a", claim)


def test_what_was_said_before_the_run_does_not_count() -> None:
    """Refuted fixes of an earlier run are not this run's."""
    story = Story(run="earlier")
    for _ in range(3):
        story.round()
        story.find("a")
        story.claim("a")
    story.run = "r"
    story.round()
    story.find("a")
    assert stall_reason(story.ledger, "earlier")
    assert story.stalled() == ""


def test_a_stage_that_keeps_failing_does_not_stall_the_loop() -> None:
    """It may fail for another reason each time."""
    story = Story()
    for _ in range(4):
        story.round()
        story.find("a", fingerprints={STAGE: "W/tests"})
        assert story.stalled() == ""
        story.claim("a")


def test_a_regression_stalls_the_loop() -> None:
    """The first time is enough."""
    story = Story()
    story.round()
    story.find("a")
    story.claim("a")
    story.round()
    story.rule("a", "fixed")
    assert story.stalled() == ""
    story.round()
    story.find("a")
    assert story.stalled().startswith("finding #1 ")


def test_new_findings_every_round_are_not_a_signal() -> None:
    """The maximum number of rounds bounds them, not a guess."""
    story = Story()
    for number in range(12):
        story.round()
        story.find(f"n{number}")
        assert story.stalled() == ""
        story.claim(f"n{number}")


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_a_loop_that_makes_progress_is_not_stalled(defects: list[tuple[int, int]]) -> None:
    """Each defect is fixed some rounds after it was found, as the fixer claims and the review confirms."""
    story = Story()
    for number in range(1, 12):
        story.round()
        for index, (found, slow) in enumerate(defects):
            if found <= number <= found + slow:
                story.find(f"d{index}")
            elif number == found + slow + 1:
                story.rule(f"d{index}", "fixed")
        assert story.stalled() == ""
        for index, (found, slow) in enumerate(defects):
            if number == found + slow:
                story.claim(f"d{index}")
    assert rounds(story.ledger, "r")[-1].outstanding == frozenset()
