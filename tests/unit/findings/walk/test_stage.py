"""Triage stages: who decides, what is recorded, and for how long findings stay chosen."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.walk.builders import AT, finding, joined

from pipeline.engine.context import EMPTY, Context, Delete, Set
from pipeline.engine.outcome import Outcome, Status, StatusSource, stage_operations
from pipeline.engine.ports import Concluded, Job, Waiting
from pipeline.engine.records import RunCreated
from pipeline.engine.state import begin
from pipeline.errors import AwfError
from pipeline.findings.events import FindingChanged, FindingRaised, decode_event
from pipeline.findings.git import TreeSnapshots
from pipeline.findings.keys import ReviewKey
from pipeline.findings.ledger import LedgerStore
from pipeline.findings.model import Finding, What
from pipeline.findings.run_findings import RunFindings
from pipeline.findings.trackers.ticket import TicketFailed
from pipeline.findings.walk.stage import TriageHandler, answers_for_visit, decisions_answer
from pipeline.findings.walk.state import Action, Choice, Turn
from pipeline.handlers.questions import Question, Reply
from pipeline.journal.memory import MemoryJournal, MemoryMailbox
from pipeline.language.model import LlmStage, TriageStage, TriageTarget

STAGE = TriageStage(id="sort", apply=TriageTarget(to="fix"), done=TriageTarget(to="end"))
FIX, REV = LlmStage(id="fix", prompt="x"), LlmStage(id="rev", prompt="x", auto_status=True)
SOURCE = 'workflow "W" {\nversion 2\nstart "a"\nstage "a" kind="llm" prompt="x"\nstage "end" kind="exit"\n}\n'
ONE, TWO, THREE = finding(1), finding(2), finding(3, fix=None)


CTRL_C = "ctrl-c"


@dataclass
class Person:
    """A person at the terminal with answers; without any they leave."""

    answers: list[str]
    told: list[str] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)
    left: int = 0

    async def ask(self, question: Question) -> Reply | None:
        self.asked.append(question)
        if not self.answers:
            return None
        answer = self.answers.pop(0)
        if answer == CTRL_C:
            raise asyncio.CancelledError
        return Reply(answer)

    def tell(self, line: str) -> None:
        self.told.append(line)

    def leave(self) -> None:
        self.left += 1


class Stage:
    """A triage of these findings, in memory."""

    def __init__(self, root: Path, *findings: Finding, person: Person | None = None) -> None:
        journal = MemoryJournal()
        LedgerStore(journal).append([FindingRaised(at=AT, finding=one) for one in findings])
        self.findings = RunFindings(LedgerStore(journal), root, {}, lambda: 0.0, TreeSnapshots({}), root / ".awf")
        trackers = {"github": lambda _context: TicketFailed("none here")}
        self.handler = TriageHandler(self.findings, {}, lambda: trackers, [person] if person else [])
        record = RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, goal="g", cwd=str(root), version="0")
        self.state = begin(record)
        self.store = root / ".awf"

    def run(self, visit: int = 1, **options: Any) -> Outcome | Waiting:
        state = self.state._replace(options=options)
        job = Job(STAGE, visit, 1, state, self.store, lambda _: None, lambda _: None)
        return asyncio.run(self.handler.run(job))

    def done(self, visit: int = 1, **options: Any) -> Outcome:
        outcome = self.run(visit, **options)
        assert isinstance(outcome, Outcome)
        return outcome

    def recorded(self, outcome: Outcome, visit: int = 1) -> dict[int, tuple[str, str]]:
        """The decisions that are recorded with the stage: by number, what and by whom."""
        context = EMPTY.apply(stage_operations(STAGE, outcome))
        added = self.findings.conclude([Concluded(STAGE, visit, outcome)], context, self.state, 0.0)
        numbers = {one.id: one.number for one in self.findings.ledger().findings.values()}
        made = [event for line in added.lines if isinstance(event := decode_event(line.text), FindingChanged)]
        assert all(event.change.what is What.DECISION for event in made)
        return {numbers[event.id]: (event.change.word, event.change.by) for event in made}


def test_each_question_goes_to_the_first_who_has_an_answer(tmp_path: Path) -> None:
    """The answer file first; after its end, the person at the terminal."""
    person = Person([Action.SKIP, Action.SKIP])
    stage = Stage(tmp_path, ONE, TWO, THREE, person=person)
    outcome = stage.done(answers={"sort": ["apply"]})
    assert (outcome.status, outcome.source, outcome.preferred_label) == (Status.SUCCESS, StatusSource.HUMAN, "apply")
    assert outcome.updates == {ReviewKey.CHOSEN: [ONE.id]}
    assert [one.text.split(" — ")[0] for one in person.asked] == ["Finding 2 of 3", "Finding 3 of 3"]
    assert stage.recorded(outcome) == {1: ("apply", "user"), 2: ("skip", "user"), 3: ("skip", "user")}
    assert len(person.told) == 3
    assert person.left == 1


def test_without_an_answer_the_run_waits_and_nothing_is_decided(tmp_path: Path) -> None:
    """Also if the person leaves in the middle."""
    stage = Stage(tmp_path, ONE, TWO, person=Person([Action.APPLY]))
    assert isinstance(stage.run(), Waiting)
    assert stage.recorded(Outcome(status=Status.SUCCESS)) == {}


def test_an_interruption_names_the_tickets_and_cancels_the_run(tmp_path: Path) -> None:
    """The person is told that nothing was recorded, and which tickets stay."""
    person = Person([Action.DEFER, Turn.PROCEED, CTRL_C])
    stage = Stage(tmp_path, ONE, TWO, person=person)
    with pytest.raises(asyncio.CancelledError):
        stage.run()
    assert "fnd_" in person.told[2]
    assert person.left == 1
    assert stage.recorded(Outcome(status=Status.SUCCESS)) == {}


@pytest.mark.parametrize("findings", [(ONE, THREE), (ONE,), (THREE,)])
def test_auto_approve_accepts_what_is_recommended(tmp_path: Path, findings: tuple[Finding, ...]) -> None:
    """Many or one; it is recorded as not a person's decision."""
    stage = Stage(tmp_path, *findings)
    outcome = stage.done(auto_approve=True)
    expected = {ONE.id: ("apply", "orchestrator"), THREE.id: ("defer", "orchestrator")}
    assert outcome.source is StatusSource.OVERRIDE
    assert [*stage.recorded(outcome).values()] == [expected[one.id] for one in findings]
    assert outcome.preferred_label == ("apply" if ONE in findings else "done")


def test_recorded_answers_need_no_confirmation_of_the_tracker(tmp_path: Path) -> None:
    """They were written before the tracker was known; a person is asked."""
    assert Stage(tmp_path, ONE).done(answers={"sort": ["defer"]}).preferred_label == "done"
    person = Person([Action.DEFER, Turn.PROCEED])
    Stage(tmp_path, ONE, person=person).done()
    assert [len(one.options) for one in person.asked] == [3, 2]


def test_a_line_of_work_is_decided_and_chosen_as_a_whole(tmp_path: Path) -> None:
    """One question for all its members; each has the decision, and each is handed to the fix stage."""
    stage = Stage(tmp_path, *joined(ONE, finding(2, reviewer="testing")))
    outcome = stage.done(answers={"sort": ["apply"]})
    assert outcome.updates == {ReviewKey.CHOSEN: [ONE.id, TWO.id]}
    assert stage.recorded(outcome) == {1: ("apply", "user"), 2: ("apply", "user")}


def test_what_was_decided_elsewhere_counts(tmp_path: Path) -> None:
    """Decisions that wait in the mailbox are used, and nobody is asked about another finding."""
    person = Person([])
    stage = Stage(tmp_path, ONE, TWO, person=person)
    mailbox = MemoryMailbox()
    mailbox.put_answer(decisions_answer("r", "sort", 1, {ONE.id: Choice(Action.SKIP)}, "anna", 1.0))
    stage.handler = replace(stage.handler, mailbox=mailbox)
    assert stage.recorded(stage.done()) == {1: ("skip", "user")}
    assert person.asked == []


def test_who_decides_nothing_elsewhere_is_not_asked_again(tmp_path: Path) -> None:
    """As after "report only" on a page: the run goes on, and everything stays open."""
    stage = Stage(tmp_path, ONE, TWO, person=Person([]))
    mailbox = MemoryMailbox()
    mailbox.put_answer(decisions_answer("r", "sort", 1, {}, "anna", 1.0))
    stage.handler = replace(stage.handler, mailbox=mailbox)
    outcome = stage.done()
    assert (outcome.preferred_label, stage.recorded(outcome)) == ("done", {})


def test_nothing_to_decide_asks_nobody(tmp_path: Path) -> None:
    """The report has one line, and the run continues."""
    outcome = Stage(tmp_path).done()
    assert (outcome.source, outcome.preferred_label, outcome.updates) == (StatusSource.DEFAULT, "done", {})
    assert outcome.response.endswith("Verdict: Not ready.")


def test_a_wrong_answer_is_an_error_that_names_the_options(tmp_path: Path) -> None:
    """Nothing is guessed."""
    outcome = Stage(tmp_path, ONE, TWO).done(answers={"sort": ["dance"]})
    assert outcome.status is Status.ERROR
    assert "dance" in outcome.reason
    assert "apply, defer, skip, rest" in outcome.reason


@pytest.mark.parametrize(
    ("given", "visit", "words"),
    [
        (["apply", "skip"], 1, ["apply"]),
        ([["apply", "skip"]], 2, []),
        ([["apply"], ["skip", "rest"]], 2, ["skip", "rest"]),
        ([["apply"], "skip"], 2, ["skip"]),
        ([], 1, []),
    ],
)
def test_answers_are_by_visit(given: Sequence[Any], visit: int, words: list[str]) -> None:
    """There is one list for each visit; a word is a list of one."""
    assert answers_for_visit({"sort": given}, "sort", visit) == words


def test_answers_for_a_human_stage_are_refused() -> None:
    """They are objects, not words."""
    with pytest.raises(AwfError, match="visit 1"):
        answers_for_visit({"sort": [{"option": "yes"}]}, "sort", 1)


def context(*chosen: Finding, reports: Sequence[Any] = ()) -> Context:
    values = [Set(ReviewKey.CHOSEN, [one.id for one in chosen]), Set(ReviewKey.REPORTS, [*reports])]
    return EMPTY.apply(values)


@pytest.mark.parametrize(
    ("stage", "outcome", "gone"),
    [
        (FIX, Outcome(status=Status.SUCCESS), True),
        (FIX, Outcome(status=Status.FAIL), False),
        (REV, Outcome(status=Status.FAIL), True),
        (STAGE, Outcome(status=Status.SUCCESS), True),
        (STAGE, Outcome(status=Status.SUCCESS, updates={ReviewKey.CHOSEN: [TWO.id]}), False),
    ],
)
def test_findings_stay_chosen_until_they_were_worked_on(
    tmp_path: Path,
    stage: Any,
    outcome: Outcome,
    gone: bool,  # noqa: FBT001 - a table's column
) -> None:
    """Until a fix stage passes, a review runs, or the next triage ends; a failed fix stage keeps them."""
    triage = Stage(tmp_path, ONE)
    added = triage.findings.conclude([Concluded(stage, 1, outcome)], context(ONE), triage.state, 0.0)
    assert (Delete(ReviewKey.CHOSEN) in added.operations) is gone


KEYS = st.lists(st.sampled_from(["apply", "skip", "defer", "rest", "proceed", "cancel", "acknowledge"]), max_size=9)


@settings(deadline=None, max_examples=50)  # each has a directory of its own
@given(st.integers(0, 3), KEYS)
def test_what_is_chosen_is_what_is_recorded(
    tmp_path_factory: pytest.TempPathFactory, many: int, keys: list[str]
) -> None:
    """Whatever is answered: everything is decided or nothing is, and what is chosen is what was recorded."""
    stage = Stage(tmp_path_factory.mktemp("stage"), *(finding(number) for number in range(1, many + 1)))
    outcome = stage.run(answers={"sort": [keys]})
    whole = isinstance(outcome, Outcome) and outcome.status is Status.SUCCESS
    made = stage.recorded(outcome if isinstance(outcome, Outcome) else Outcome(status=Status.SUCCESS))
    assert len(made) == (many if whole else 0)
    chosen = outcome.updates.get(ReviewKey.CHOSEN, []) if isinstance(outcome, Outcome) else []
    assert len(chosen) == sum(action == "apply" for action, _ in made.values())
    if whole and isinstance(outcome, Outcome):
        assert outcome.preferred_label == ("apply" if chosen else "done")
