"""A walk that is carried out: by people, trackers, a validator and a fixer that are given."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.findings.walk.made import LINEAR, finding, walk_of

from pipeline.findings.model import Finding
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, TrackerStatus
from pipeline.findings.walk.machine import IllegalAnswer, Question
from pipeline.findings.walk.present import Fixes, OptionKey, Validation
from pipeline.findings.walk.session import TASK, FixerProgram, Session

ONE, TWO = finding(1), finding(2, fix=None)


@dataclass
class Writer:
    """A person with answers at hand."""

    answers: list[str]
    told: list[str] = field(default_factory=list)

    def choose(self, question: Question) -> OptionKey:
        if not self.answers:
            raise KeyboardInterrupt
        word = self.answers.pop(0)
        return OptionKey(word) if word in {option.key for option in question.options} else OptionKey.REPORT

    def tell(self, line: str) -> None:
        self.told.append(line)


@dataclass
class Paper:
    """Trackers on paper: the first is broken, the second works."""

    used: int = 0

    @property
    def name(self) -> str:
        return ("Linear", "Paper")[self.used]

    def sinks(self) -> TrackerStatus:
        return TrackerStatus(self.name, any_sink_available=True) if self.used < 2 else NO_TRACKER

    def file(self, finding: Finding) -> Filed | TicketFailed:
        return Filed(f"T-{finding.number}") if self.used else TicketFailed("down")

    def fall_back(self, reason: str) -> bool:
        assert reason == "down"
        self.used += 1
        return self.used < 2


def session(writer: Writer, **how: object) -> Session:
    return Session(
        walk_of(ONE, TWO, sinks=LINEAR, **how),
        writer.tell,
        Paper(),
        fixer=lambda queue: Fixes(frozenset(one.id for one in queue)),
        validator=lambda found: {one.id: Validation(one.number == 1, "no") for one in found},
    )


def test_a_session_carries_out_what_the_walk_asks_for() -> None:
    """002-22, 002-43, 002-50: lines that confirm, the next tracker after a failure, and the fixer at the end."""
    writer = Writer(["apply", "defer", "fallback"])
    one = session(writer)
    report = one.run(writer.choose)
    assert writer.told == ["→ Applied. Fix staged at src/cache.py:36-37.", "→ Deferred. Ticket filed: T-2."]
    assert one.tickets == ("T-2",)
    assert report.lines[0].note == "src/cache.py:36-37"


def test_a_plan_confirms_only_its_tickets() -> None:
    """002-44: the plan itself was shown."""
    writer = Writer(["rest", "proceed", "fallback"])
    one = session(writer)
    one.run(writer.choose)
    assert writer.told == ["→ Deferred. Ticket filed: T-2."]


def test_a_validator_is_asked_where_there_is_one() -> None:
    """002-44, 002-74: what it refuses is dropped."""
    writer = Writer(["rest", "proceed"])
    report = session(writer, validates=True).run(writer.choose)
    assert report.counts["dropped"] == 1


def test_002_46_an_interruption_leaves_the_tickets() -> None:
    """002-46: everything else is lost, and no fixer has run."""
    writer = Writer(["defer", "fallback"])
    one = session(writer)
    with pytest.raises(KeyboardInterrupt):
        one.run(writer.choose)
    assert one.tickets == ("T-1",)
    assert one.walk.fixes == Fixes()


def test_an_answer_that_is_none_stops_it() -> None:
    """002-11: a question is never silently skipped."""
    writer = Writer(["dance"])
    with pytest.raises(IllegalAnswer):
        session(writer).run(writer.choose)


def program(root: Path, text: str) -> FixerProgram:
    return FixerProgram((sys.executable, "-c", text), root, {})


def test_002_50_a_fixer_is_run_once_with_everything(tmp_path: Path) -> None:
    """002-50, 002-52: in the repository, with all findings as text; what it says of each is kept."""
    text = "import sys; open('got', 'w').write(sys.stdin.read()); print('[FINDING 1: fixed]\\n[FINDING 9: fixed]')"
    fixer = program(tmp_path, text)
    fixes = fixer([ONE, TWO])
    assert (tmp_path / "got").read_text().startswith(TASK)
    assert "#1 " in (tmp_path / "got").read_text()
    assert "#2 " in (tmp_path / "got").read_text()
    assert fixes == Fixes(frozenset({ONE.id}), {TWO.id: "the fixer did not say what became of it"})
    assert [answer.number for answer in fixer.said] == [1]


def test_002_63_a_fixer_that_fails_says_why(tmp_path: Path) -> None:
    """002-63: by its own words, its exit code, or because it is not there."""
    said = program(tmp_path, "print('[FINDING 1: not fixed, because it is hard]'); raise SystemExit(3)")([ONE, TWO])
    assert said.failed == {ONE.id: "not fixed, because it is hard", TWO.id: "the fixer ended with exit code 3"}
    gone = FixerProgram(("no-such-program",), tmp_path, {})([ONE])
    assert gone.failed == {ONE.id: "no-such-program cannot be run: No such file or directory"}


def test_002_51_without_a_fixer_nothing_is_made(tmp_path: Path) -> None:
    """002-51: nor does anything fail."""
    assert FixerProgram((), tmp_path, {})([ONE]) == Fixes()
