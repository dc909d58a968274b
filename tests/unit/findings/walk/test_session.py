"""A walk with its effects: opened from a ledger, driven by answers, with trackers, a validator and a fixer."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.findings.walk.builders import (
    AT,
    LINEAR,
    FixedChain,
    finding,
    ledger_of,
    raw_finding,
    vote,
    walk_of,
)

from pipeline.errors import AwfError
from pipeline.findings.events import LinkAdded
from pipeline.findings.formats import FORMATS
from pipeline.findings.ledger import DUPLICATE_OF, Ledger
from pipeline.findings.model import Finding, FindingId, Link, Location, RawFinding
from pipeline.findings.trackers import TrackerChain
from pipeline.findings.trackers.ticket import Filed, TicketFailed, TrackerContext
from pipeline.findings.walk.machine import Fixes, OptionKey, Route, Validation, WalkItem
from pipeline.findings.walk.present import Question
from pipeline.findings.walk.session import TASK, Fixer, Session, open_walk, read_artifacts, run_fixer

ONE, TWO = finding(1), finding(2, fix=None)
BARE = finding(impact="", votes=(vote("testing"), vote("correctness")))


@dataclass
class Person:
    """A person with answers at hand; without any they press Ctrl-C."""

    answers: list[str]
    told: list[str] = field(default_factory=list)

    def choose(self, question: Question) -> OptionKey:
        if not self.answers:
            raise KeyboardInterrupt
        word = self.answers.pop(0)
        return next((option.key for option in question.options if option.key == word), Route.REPORT)


@dataclass
class FakeTracker:
    """A tracker that works or does not."""

    name: str
    works: bool = True

    def file(self, finding: Finding) -> Filed | TicketFailed:
        return Filed(f"T-{finding.number}") if self.works else TicketFailed("down")


def session(person: Person, **how: Any) -> Session:
    """A session with two trackers, of which the first is down."""
    opened = {"linear": lambda _context: FakeTracker("Linear", works=False), "paper": lambda _: FakeTracker("Paper")}
    return Session(
        walk_of(ONE, TWO, trackers=LINEAR, **how),
        person.told.append,
        TrackerChain(TrackerContext(Path(), Path(), {}), trackers=opened),
        fixer=lambda queue: Fixes(frozenset(one.id for one in queue)),
    )


def test_a_session_carries_out_what_the_walk_asks_for() -> None:
    """Confirmations, the next tracker after a failure, and the fixer at the end."""
    person = Person(["apply", "defer", "fallback"])
    one = session(person)
    walk = one.run(person.choose)
    assert [line.split(".")[0] for line in person.told] == ["→ Applied", "→ Deferred"]
    assert one.tickets == ("T-2",)
    assert walk.fixes.made == {ONE.id}


def test_a_plan_confirms_only_its_tickets() -> None:
    """The plan itself was shown."""
    person = Person(["rest", "proceed", "fallback"])
    session(person).run(person.choose)
    [line] = person.told
    assert line.startswith("→ Deferred")


def test_a_validator_is_asked_if_there_is_one() -> None:
    """What it refuses is dropped."""

    async def refuse_second(found: Sequence[Finding]) -> dict[FindingId, Validation]:
        return {one.id: Validation(one.number == 1, "no") for one in found}

    person = Person(["rest", "proceed"])
    assert list(session(person, validates=True).run(person.choose, refuse_second).dropped) == [TWO.id]


def test_an_interruption_leaves_the_tickets() -> None:
    """Everything else is lost, and no fixer has run."""
    person = Person(["defer", "fallback"])
    one = session(person)
    with pytest.raises(KeyboardInterrupt):
        one.run(person.choose)
    assert one.tickets == ("T-1",)
    assert one.walk.fixes == Fixes()


def test_an_illegal_answer_stops_it() -> None:
    """No question is skipped silently."""
    person = Person(["dance"])
    with pytest.raises(AwfError):
        session(person).run(person.choose)


def fixer(root: Path, *command: str) -> Fixer:
    return partial(run_fixer, command, root, {}, ledger_of(ONE, TWO).members)


def test_a_fixer_is_run_once_with_everything(tmp_path: Path) -> None:
    """In the repository, with all findings as text; what it says about each is kept."""
    text = "import sys; open('got', 'w').write(sys.stdin.read()); print('[FINDING 1: fixed]\\n[FINDING 9: fixed]')"
    fixes = fixer(tmp_path, sys.executable, "-c", text)([ONE, TWO])
    prompt = (tmp_path / "got").read_text()
    assert prompt.startswith(TASK)
    assert ("#1 " in prompt, "#2 " in prompt) == (True, True)
    assert (set(fixes.made), list(fixes.failed)) == ({ONE.id}, [TWO.id])
    assert [answer.number for answer in fixes.answers] == [1]


def test_a_fixer_that_fails_says_why(tmp_path: Path) -> None:
    """By its own words, its exit code, or because it cannot be run; without a command nothing fails."""
    text = "print('[FINDING 1: not fixed, because it is hard]'); raise SystemExit(3)"
    failed = fixer(tmp_path, sys.executable, "-c", text)([ONE, TWO])
    assert failed.failed.keys() == {ONE.id, TWO.id}
    assert failed.failed[ONE.id].endswith("it is hard")
    assert "code 3" in failed.failed[TWO.id]
    assert "no-such-program" in fixer(tmp_path, "no-such-program")([ONE]).failed[ONE.id]
    assert fixer(tmp_path)([ONE]) == Fixes()


def item(one: Finding, directory: Path, **returns: RawFinding) -> WalkItem:
    """A finding as it is asked about, with what these reviewers returned."""
    for name, raw in returns.items():
        found = finding(title=raw.title, impact=raw.impact, locations=raw.locations, why_it_works=raw.why_it_works)
        (directory / f"{name}.json").write_bytes(FORMATS["review"].write([found], Ledger()).encode())
    return open_walk(ledger_of(one), FixedChain(LINEAR), directory).items[0]


@pytest.mark.parametrize(
    ("line", "title", "path", "found"),
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
    tmp_path: Path, line: int, title: str, path: str, *, found: bool
) -> None:
    """The same file, at most three lines apart, the same words; without a match the reviewers are named."""
    got = item(BARE, tmp_path, correctness=raw_finding(title=title, locations=(Location(path=path, start=line),)))
    assert got.impact == ("Any file can be read." if found else "")
    assert got.unexplained_by == (() if found else ("testing", "correctness"))


def test_the_first_reviewer_with_a_match_is_used(tmp_path: Path) -> None:
    """In the order of their votes, each looked up by their own title."""
    got = item(BARE, tmp_path, correctness=raw_finding(impact="second"), testing=raw_finding(impact="first"))
    assert (got.impact, got.pointer) == ("first", f"{tmp_path}/testing.json → findings[].suggested_fix")
    own = finding(impact="", votes=(vote("correctness", title="Reads any file"),))
    assert item(own, tmp_path, correctness=raw_finding(title="Reads any file")).impact


def test_a_finding_with_its_own_detail_needs_no_return(tmp_path: Path) -> None:
    """What the ledger has is preferred."""
    why = "It is so elsewhere."
    got = item(finding(why_it_works=why), tmp_path)
    assert (got.impact, got.why_it_works) == (ONE.impact, "It is so elsewhere.")
    assert (got.pointer, got.unexplained_by) == ("awf findings show 1", ())
    assert item(BARE, tmp_path, testing=raw_finding(why_it_works=why)).why_it_works == why


def test_unreadable_returns_are_left_out(tmp_path: Path) -> None:
    """Missing, malformed or named like a path."""
    (tmp_path / "correctness.json").write_bytes(FORMATS["review"].write([finding()], Ledger()).encode())
    (tmp_path / "testing.json").write_text("{")
    (tmp_path / "folder.json").mkdir()
    names = ("correctness", "testing", "folder", "../correctness", "security", "\0")
    got = read_artifacts(tmp_path, [finding(votes=tuple(map(vote, names)))])
    assert got["correctness"][0].impact.startswith("Any caller")
    assert got["testing"] == ()
    assert set(got) == {"correctness", "testing"}


def test_a_cluster_is_one_item(tmp_path: Path) -> None:
    """The leader is asked about; its members are shown with it."""
    ledger = ledger_of(ONE, finding(2))
    ledger.apply(LinkAdded(at=AT, id=finding(2).id, link=Link(kind=DUPLICATE_OF, to=ONE.id)))
    [got] = open_walk(ledger, FixedChain(LINEAR), tmp_path).items
    assert (got.finding.number, [one.number for one in got.members]) == (1, [2])
