"""Rounds are counted from what was ruled on, and a loop is called stalled only by what was."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import plain

from pipeline.findings.events import Assessed, Linked, Missed, Raised, Seen, Tried, Turned
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Attempt, FindingId, Link, Observed, PassId, State, Strength
from pipeline.findings.passes import Pass
from pipeline.findings.rounds import Round, rounds, stalled

AT = "2026-01-02T03:04:05Z"


@dataclass
class Story:
    """Rounds of one run, told to a ledger."""

    ledger: Ledger = field(default_factory=Ledger)
    number: int = 0

    def round(self) -> None:
        """A review begins."""
        self.number += 1
        self.ledger.apply(Assessed(at=AT, assessment=Pass(id=self.now, started_at=AT, run="r", round=self.number)))

    @property
    def now(self) -> PassId:
        return PassId(f"REV-{self.number}-abc")

    def find(self, name: str, cause: str = "") -> None:
        """The review reports a defect: one that it knows, or a new one, on lines that the fix of another wrote."""
        id = FindingId(f"fnd_{name}")
        if id not in self.ledger.findings:
            self.ledger.apply(Raised(at=AT, finding=plain(id=id, signature=f"sha256:{name}", pass_id=self.now)))
            if cause:
                self.ledger.apply(Linked(at=AT, id=id, link=Link(kind="caused_by", to=f"fnd_{cause}")))
            return
        known = self.ledger.findings[id]
        seen = Seen(at=AT, id=id, pass_id=self.now, observed=Observed.UNCHANGED, strength=Strength.EXACT)
        self.ledger.apply(seen)
        if known.state is State.FIX_CLAIMED:
            self.turn(id, State.REOPENED, "it was said to be fixed")
            self.ledger.apply(Tried(at=AT, id=id, attempt=Attempt(run="r", outcome="not_fixed")))
        elif known.state is State.VERIFIED_FIXED:
            self.turn(id, State.REOPENED, "regression: it was fixed, and it is back")

    def miss(self, name: str) -> None:
        self.ledger.apply(Missed(at=AT, id=FindingId(f"fnd_{name}"), pass_id=self.now))

    def fix(self, name: str, state: State = State.FIX_CLAIMED) -> None:
        self.turn(FindingId(f"fnd_{name}"), state, "")

    def turn(self, id: FindingId, state: State, note: str) -> None:
        self.ledger.apply(Turned(at=AT, id=id, state=state, by="revalidate", note=note, pass_id=self.now))

    def stalled(self) -> str:
        return stalled(self.ledger, "r")


def test_the_table_of_rounds() -> None:
    """000-57: what a round resolved, carried, found and brought back, by the numbers of findings."""
    story = Story()
    story.round()
    story.find("a")
    story.find("b")
    story.fix("a")
    story.round()
    story.miss("a")
    story.find("b")
    story.find("c", cause="a")
    story.fix("a", State.VERIFIED_FIXED)
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
    """Once is no sign; twice by the reviewer's own ruling is."""
    story = Story()
    said = []
    for _ in range(3):
        story.round()
        story.find("a")
        said.append(story.stalled())
        story.fix("a")
    assert said == ["", "", "finding #1 was said to be fixed and was not, 2 times"]


def test_a_fix_that_came_back_stalls_the_loop() -> None:
    """One that oscillates is seen the first time it comes back."""
    story = Story()
    story.round()
    story.find("a")
    story.fix("a", State.VERIFIED_FIXED)
    story.round()
    story.find("b")
    assert story.stalled() == ""
    story.round()
    story.find("a")
    assert story.stalled() == "finding #1 was fixed and came back"


def test_fixes_that_make_findings_stall_the_loop() -> None:
    """One such finding may happen; in two rounds one after the other it is the fixing that is wrong."""
    story = Story()
    said = []
    for number, name in enumerate("abc"):
        story.round()
        story.find(name, cause="abc"[number - 1] if number else "")
        said.append(story.stalled())
        story.fix(name)
    assert said[:2] == ["", ""]
    assert said[2] == "finding #3 is on lines that a fix wrote, as one of the round before was"


def test_a_reviewer_that_never_settles_is_no_signal() -> None:
    """New findings round after round are for the number of rounds to bound, not for a guess."""
    story = Story()
    for number in range(12):
        story.round()
        story.find(f"n{number}")
        assert story.stalled() == ""
        story.fix(f"n{number}")


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), min_size=1, max_size=12))
def test_an_honest_loop_gives_no_alarm(defects: list[tuple[int, int]]) -> None:
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
