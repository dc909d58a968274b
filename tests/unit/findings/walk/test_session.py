"""A walk with its effects: opened from a ledger, driven by answers, with trackers, a validator and a fixer."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.findings.walk.builders import (
    AT,
    LINEAR,
    FixedChain,
    decision,
    draft,
    finding,
    joined,
    ledger_of,
    line,
    walk_of,
)

from pipeline.engine.outcome import StatusSource
from pipeline.errors import AwfError
from pipeline.findings.formats import FORMATS
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import (
    Actor,
    Change,
    Draft,
    Finding,
    FindingId,
    FindingState,
    Location,
    What,
)
from pipeline.findings.trackers import TrackerChain
from pipeline.findings.trackers.ticket import Filed, TicketFailed, TrackerContext
from pipeline.findings.walk.fixing import TASK, fix_events, read_fixes, run_fixer
from pipeline.findings.walk.machine import Validate
from pipeline.findings.walk.session import (
    Session,
    decision_events,
    open_walk,
    read_artifacts,
    triage_of_run,
)
from pipeline.findings.walk.state import Action, Fixes, Validation, WalkItem
from pipeline.handlers.questions import Question, Reply

ONE, TWO = finding(1), finding(2, fix=None)
BARE = joined(finding(1, impact="", reviewer="testing"), finding(2, impact="", reviewer="correctness"))


@dataclass
class FakeTracker:
    """A tracker that works or does not."""

    name: str
    works: bool = True

    def file(self, line: Line) -> Filed | TicketFailed:
        return Filed(f"T-{line.number}") if self.works else TicketFailed("down")


@dataclass
class Drive:
    """A session with two trackers, of which the first is down, and what it says."""

    how: dict[str, Any] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def session(self, *words: str) -> Session:
        """The session after these answers."""
        opened = {
            "linear": lambda _context: FakeTracker("Linear", works=False),
            "paper": lambda _: FakeTracker("Paper"),
        }
        session = Session(
            walk_of(ONE, TWO, trackers=LINEAR, **self.how),
            TrackerChain(TrackerContext(Path(), Path(), {}), trackers=opened),
            self.told.append,
        )
        session.advance()
        for word in words:
            session.answer(Reply(word))
        return session


def test_a_session_carries_out_what_the_walk_asks_for() -> None:
    """It confirms what was done, and uses the next tracker after a failure."""
    drive = Drive()
    session = drive.session("apply", "defer", "fallback")
    assert [line.split(".")[0] for line in drive.told] == ["→ Applied", "→ Deferred"]
    assert session.tickets == ["T-2"]
    assert session.outcome is not None
    assert [one.id for one in session.outcome.accepted] == [ONE.id]
    assert session.source is StatusSource.HUMAN


def test_a_plan_confirms_only_its_tickets() -> None:
    """The plan itself was shown."""
    drive = Drive()
    drive.session("rest", "proceed", "fallback")
    [line] = drive.told
    assert line.startswith("→ Deferred")


def test_a_session_stops_where_a_validator_is_needed() -> None:
    """It continues with what the validator says, and what that refuses is dropped."""
    session = Drive({"validates": True}).session("rest")
    assert isinstance(session.waiting, Validate)
    session.validated({one.id: Validation(one.number == 1, "no") for one in session.waiting.lines})
    session.answer(Reply("proceed"))
    assert session.outcome is not None
    assert list(session.outcome.dropped) == [TWO.id]


def test_a_session_that_is_dropped_says_what_stays() -> None:
    """Filed tickets stay; every decision is lost."""
    session = Drive().session("defer", "fallback")
    assert (session.tickets, session.outcome) == (["T-1"], None)
    assert any("T-1" in line for line in session.discarded())


def test_an_illegal_answer_is_refused_and_the_question_stays() -> None:
    """No question is skipped silently."""
    session = Drive().session()
    with pytest.raises(AwfError, match="dance"):
        session.answer(Reply("dance"))
    session.answer(Reply("skip"))
    assert isinstance(session.waiting, Question)
    assert session.waiting.about == TWO.id


def test_a_decision_is_recorded_with_every_open_member() -> None:
    """The decision is one; a member that is closed already gets no event."""
    closed = finding(3, state=FindingState.FALSE_POSITIVE)
    begun = walk_of(*joined(finding(1), finding(2), closed))
    [item] = begun.items
    done = begun.decide(item, Action.DEFER, reason="later", ref="T-1")
    events = decision_events(done, AT, who="anna", by=Actor.USER, run="r")
    made = Change(at=AT, what=What.DECISION, who="anna", by=Actor.USER, word="defer", note="later", run="r", ref="T-1")
    assert {event.id: event.change for event in events} == dict.fromkeys((finding(1).id, finding(2).id), made)


def test_the_triage_of_a_run_is_found_in_the_ledger() -> None:
    """Its last decisions, with what a fixer of that run made of them since."""
    claim = Change(at=AT, what=What.CLAIM, who="fix", by=Actor.FINISH_TASK, word="not_fixed", note="too hard", run="r")
    accepted = finding(1, history=(decision("skip"), decision("apply", run="r"), claim))
    fixed = finding(2, history=(decision("apply", run="r"),), state=FindingState.FIX_CLAIMED)
    ledger = ledger_of(accepted, fixed, finding(3, history=(decision("skip", run="other"),)))
    done = triage_of_run(ledger, "r")
    assert done is not None
    assert {id: choice.action for id, choice in done.choices.items()} == dict.fromkeys(
        (accepted.id, fixed.id), Action.APPLY
    )
    assert done.fixes.made == {fixed.id}
    assert done.fixes.failed == {accepted.id: "not fixed, too hard"}
    assert triage_of_run(ledger, "third") is None


# --- the fixer -------------------------------------------------------------------------------------------------------


def fixer(root: Path, *command: str) -> Callable[[Sequence[Line]], Fixes]:
    return partial(run_fixer, command, root, {})


def test_a_fixer_is_run_once_with_everything(tmp_path: Path) -> None:
    """It runs in the repository, reads all findings as text, and what it says about each is kept."""
    text = "import sys; open('got', 'w').write(sys.stdin.read()); print('[FINDING 1: fixed]\\n[FINDING 9: fixed]')"
    fixes = fixer(tmp_path, sys.executable, "-c", text)([line(ONE), line(TWO)])
    prompt = (tmp_path / "got").read_text()
    assert prompt.startswith(TASK)
    assert ("#1 " in prompt, "#2 " in prompt) == (True, True)
    assert (set(fixes.made), list(fixes.failed)) == ({ONE.id}, [TWO.id])
    assert [(said.number, said.word) for said in fixes.said] == [(1, "fixed"), (2, "not_fixed")]


def test_a_fixer_that_fails_says_why(tmp_path: Path) -> None:
    """By its own words, its exit code, or because it cannot be run; without a command nothing fails."""
    text = "print('[FINDING 1: not fixed, because it is hard]'); raise SystemExit(3)"
    failed = fixer(tmp_path, sys.executable, "-c", text)([line(ONE), line(TWO)])
    assert failed.failed.keys() == {ONE.id, TWO.id}
    assert failed.failed[ONE.id].endswith("it is hard")
    assert "code 3" in failed.failed[TWO.id]
    assert "no-such-program" in fixer(tmp_path, "no-such-program")([line(ONE)]).failed[ONE.id]
    assert fixer(tmp_path)([line(ONE)]) == Fixes()


@pytest.mark.parametrize(
    ("said", "word", "states"),
    [
        ("[FINDING 2: fixed]", "fixed", {FindingState.FIX_CLAIMED}),
        ("[FINDING 1: fixed]\n[FINDING 2: wrong, because it is checked]", "wrong", {FindingState.OPEN}),
        ("[FINDING 1: fixed]\n[FINDING 2: not fixed]", "not_fixed", {FindingState.OPEN}),
        ("I fixed everything.", "not_fixed", {FindingState.OPEN}),
    ],
)
def test_a_claim_counts_for_all_open_members(said: str, word: str, states: set[FindingState]) -> None:
    """The fixer may name any member; of two claims the worse counts, and what it does not mention is not fixed."""
    members = joined(finding(1), finding(2, reviewer="testing"))
    ledger = ledger_of(*members)
    fixes = read_fixes([ledger.line(members[0].id)], said)
    assert (bool(fixes.made), bool(fixes.failed)) == (word == "fixed", word != "fixed")
    for event in fix_events(fixes, ledger, AT):
        ledger.apply(event)
    assert [[claim.word for claim in one.claims] for one in ledger.findings.values()] == [[word], [word]]
    assert {one.state for one in ledger.findings.values()} == states


# --- what reviewers returned -----------------------------------------------------------------------------------------


def item(found: Sequence[Finding], directory: Path, **returns: Draft) -> WalkItem:
    """A line of work as it is asked about, with what these reviewers returned."""
    for name, one in returns.items():
        fields: dict[str, Any] = {"title": one.title, "impact": one.impact, "locations": one.locations}
        written = FORMATS["review"].write([finding(why_it_works=one.why_it_works, **fields)], Ledger())
        (directory / f"{name}.json").write_text(written)
    [opened] = open_walk(ledger_of(*found), FixedChain(LINEAR), directory).items
    return opened


@pytest.mark.parametrize(
    ("start", "title", "path", "found"),
    [
        (36, "Path traversal in loadUserFromCache", "src/cache.py", True),
        (39, "path traversal in: loadUserFromCache!", "src/cache.py", True),
        (33, "Path traversal in loadUserFromCache", "src/cache.py", True),
        (40, "Path traversal in loadUserFromCache", "src/cache.py", False),
        (36, "Another title", "src/cache.py", False),
        (36, "Path traversal in loadUserFromCache", "src/other.py", False),
    ],
)
def test_a_return_is_matched_by_file_line_and_title(
    tmp_path: Path, start: int, title: str, path: str, *, found: bool
) -> None:
    """The same file, at most three lines apart, the same words; without a match the reviewers are named."""
    got = item(BARE, tmp_path, correctness=draft(title=title, locations=(Location(path=path, start=start),)))
    assert got.impact == ("Any file can be read." if found else "")
    assert got.unexplained_by == (() if found else ("testing", "correctness"))


def test_the_first_member_with_a_match_is_used(tmp_path: Path) -> None:
    """In the order of the members, each looked up by its own title in its own reviewer's return."""
    got = item(BARE, tmp_path, correctness=draft(impact="second"), testing=draft(impact="first"))
    assert (got.impact, got.pointer) == ("first", f"{tmp_path}/testing.json → findings[].suggested_fix")
    own = joined(BARE[0], finding(2, impact="", title="Reads any file"))
    other = draft(title="Reads any file", impact="own words")
    assert item(own, tmp_path, testing=draft(title="Another"), correctness=other).impact == "own words"


def test_a_finding_with_its_own_detail_needs_no_return(tmp_path: Path) -> None:
    """What the ledger has is preferred; a reason why the fix works is taken from the return if it has none."""
    why = "It is so elsewhere."
    got = item([finding(why_it_works=why)], tmp_path)
    assert (got.impact, got.why_it_works) == (ONE.impact, why)
    assert (got.pointer, got.unexplained_by) == ("awf findings show 1", ())
    assert item(BARE, tmp_path, testing=draft(why_it_works=why)).why_it_works == why


def test_unreadable_returns_are_left_out(tmp_path: Path) -> None:
    """A return that is missing, or whose name is a path, is left out; a malformed one has no drafts."""
    (tmp_path / "correctness.json").write_text(FORMATS["review"].write([finding()], Ledger()))
    (tmp_path / "testing.json").write_text("{")
    (tmp_path / "folder.json").mkdir()
    names = ("correctness", "testing", "folder", "../correctness", "security", "\0")
    members = [finding(number, reviewer=name) for number, name in enumerate(names, 1)]
    got = read_artifacts(tmp_path, [line(*members)])
    assert got["correctness"][0].impact.startswith("Any caller")
    assert got["testing"] == ()
    assert set(got) == {"correctness", "testing"}


def test_a_line_of_work_is_one_item() -> None:
    """The worst open member is shown, under the number of the line; a doubt is shown by its number."""
    worst = finding(2, reviewer="testing", severity="critical", may_be=(FindingId("fnd_00000003"),))
    other = finding(3, state=FindingState.WONT_FIX)
    [got] = walk_of(*joined(ONE, worst), other).items
    assert (got.line.number, got.finding.number, got.same_as) == (1, 2, (3,))
    assert [one.number for one in got.line.others] == [1]
