"""What a review is about, who has looked at it, and that there is one verdict on it."""

from typing import Any

import pytest
from tests.unit.findings.ledgers import AT, LATER, assessed, changed, finding, look, looked, turned

from pipeline.findings.events import AnswerOwed, Coverage, FindingRaised, Look, Pass
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, FindingState, Gate, Location, PassId, ReportStatus, Severity, What
from pipeline.findings.reviews import Review, review, review_id, review_of_run
from pipeline.findings.verdicts import Readiness, Shipping, Verdict

CHANGE: dict[str, Any] = {"base": "b" * 40, "target": "main..HEAD"}


class History:
    """A ledger that grows pass by pass."""

    def __init__(self) -> None:
        self.ledger = Ledger()

    def passed(self, *numbers: int, **more: Any) -> Pass:
        """A pass that raises findings by their numbers, each of which must be fixed, in a file of its own."""
        id = PassId(f"REV-{len(self.ledger.passes) + 1}-a")
        self.ledger.apply(assessed(id, finding_ids=tuple(finding(number).id for number in numbers), **more))
        for number in numbers:
            place = (Location(path=f"{number}.py", start=1),)
            self.find(number, locations=place, pass_id=id)
        return self.ledger.passes[id]

    def find(self, number: int, **more: Any) -> None:
        """A finding without a pass of its own."""
        given: dict[str, Any] = {"severity": Severity.HIGH, "gate": Gate.MUST}
        self.ledger.apply(FindingRaised(at=AT, finding=finding(number, **given | more)))

    def turn(self, number: int, state: FindingState) -> None:
        """A person gives a finding another state."""
        self.ledger.apply(turned(number, state))

    def review(self, passed: Pass | None = None) -> Review:
        """What is known about the target of a pass, by default the last."""
        return review(self.ledger, passed)


def numbers(known: Review) -> list[int]:
    return [one.number for one in known.findings]


# --- what it is about ------------------------------------------------------------------------------------------------


def test_a_review_is_about_the_files_of_the_change_whoever_reported_them() -> None:
    """What an earlier run or import found in them counts; what is elsewhere is listed apart."""
    history = History()
    history.passed(1, 2, run="earlier")
    history.find(3, locations=())
    known = history.review(history.passed(paths=("1.py",)))
    assert numbers(known) == [1, 3]
    assert [line.number for line in known.elsewhere] == [2]
    assert (known.verdict, known.shipping) == (Verdict.WARN, Shipping.BLOCK_ON_MUSTS)


def test_a_review_is_about_everything_that_its_run_reported_or_confirmed() -> None:
    """Also in files that are not part of the change; with unknown files it is about everything."""
    history = History()
    history.passed(1, 2, run="earlier")
    passed = history.passed(3, run="r", paths=("x.py",))
    ruling = changed(2, What.RULING, word="upheld", pass_id=passed.id, fields={"pass_id": passed.id})
    history.ledger.apply(ruling)
    assert numbers(history.review(history.passed(run="r", paths=("x.py",)))) == [2, 3]
    assert numbers(history.review(history.passed(run="other"))) == [1, 2, 3]


def test_a_review_lists_all_members_of_a_line_of_work() -> None:
    """A member in another file belongs to it, and counts with its own severity and state."""
    history = History()
    history.passed(1)
    history.find(2, locations=(Location(path="2.py"),), line=finding(1).id, severity=Severity.CRITICAL)
    history.turn(1, FindingState.VERIFIED_FIXED)
    known = history.review(history.passed(paths=("1.py",)))
    assert numbers(known) == [1, 2]
    assert [(line.number, line.title) for line in known.open] == [(1, "Defect 2")]
    assert known.verdict is Verdict.FAIL


def test_a_verification_is_no_better_than_what_is_open() -> None:
    """Of two critical findings one is verified: the other one still fails the review."""
    history = History()
    history.passed(1, 2, run="r")
    for number in (1, 2):
        history.ledger.apply(changed(number, What.TRIAGE, who="anna", fields={"severity": Severity.CRITICAL}))
    verification = history.passed(run="v", mode="verify", paths=("1.py", "2.py"))
    history.turn(1, FindingState.VERIFIED_FIXED)
    known = history.review(verification)
    assert (known.verdict, known.shipping) == (Verdict.FAIL, Shipping.BLOCK_ON_MUSTS)
    assert known.verdict is history.review().verdict


def test_an_import_with_an_empty_list_ships_nothing_that_is_open() -> None:
    """An import adds what it says, and its silence closes nothing."""
    history = History()
    history.passed(1)
    empty = history.passed(coverage=Coverage(looks=(look("b", ReportStatus.EMPTY),)))
    assert history.review(empty).shipping is Shipping.BLOCK_ON_MUSTS


def test_before_anybody_looked_nothing_passes() -> None:
    """There is no pass, and the review says so."""
    history = History()
    known = history.review()
    assert (known.id, known.verdict, known.complete) == ("", Verdict.FAIL, False)
    assert known.gaps
    assert review_of_run(history.ledger, "r") is None


def test_the_review_of_a_run_is_that_of_its_last_pass() -> None:
    """Passes of other runs in between change nothing."""
    history = History()
    history.passed(run="r")
    last = history.passed(run="r")
    history.passed(run="other")
    known = review_of_run(history.ledger, "r")
    assert known is not None
    assert known.passed == last


# --- what follows from it --------------------------------------------------------------------------------------------


def test_lines_of_work_are_counted_and_not_their_members() -> None:
    """The worst open member decides where a line counts; claims are counted one by one."""
    history = History()
    history.passed(1, 2)
    history.find(3, line=finding(1).id, severity=Severity.CRITICAL, state=FindingState.FIX_CLAIMED)
    history.find(4, severity=Severity.LOW, gate=Gate.SUGGEST)
    history.find(5, pre_existing=True)
    known = history.review()
    assert known.summary == {"blocker": 1, "high": 1, "medium": 0, "low": 1, "info": 0}
    assert [line.number for line in known.blocking] == [1, 2]
    assert {line.number for line in known.open} == {1, 2, 4, 5}
    assert [one.number for one in known.claimed] == [3]
    assert known.headline.startswith("FAIL (1 critical, 1 high, 1 low); 1 claimed fix ")


def test_who_did_not_rule_on_an_open_finding_is_named() -> None:
    """A finding that was closed since needs no ruling any more."""
    history = History()
    history.passed(1, 2, coverage=Coverage(looks=(look("a", unruled=(1, 2)),)))
    history.turn(2, FindingState.VERIFIED_FIXED)
    assert history.review().unruled == ("a did not rule on #1",)


def test_files_that_changed_meanwhile_make_nothing_ready() -> None:
    """Nobody looked at what is there now."""
    history = History()
    assert history.review(history.passed()).readiness() is Readiness.READY
    known = history.review(history.passed(changed=True))
    assert (known.readiness(), known.shipping) == (Readiness.NOT_READY, Shipping.BLOCK_ON_REJECTION)


# --- who has answered ------------------------------------------------------------------------------------------------


def test_an_answer_that_is_owed_keeps_everything_from_passing_until_it_is_given() -> None:
    """Whoever else answers meanwhile."""
    history = History()
    history.passed(run="r")
    history.ledger.apply(AnswerOwed(at=AT, look=look("b", ReportStatus.MISSING), run="r"))
    known = history.review()
    assert (known.verdict, known.complete, len(known.gaps)) == (Verdict.FAIL, False, 1)
    assert not history.review(history.passed(run="r")).complete
    known = history.review(history.passed(run="r", coverage=looked("b")))
    assert (known.verdict, known.complete) == (Verdict.PASS, True)
    assert {one.reviewer for one in known.coverage.looks} == {"correctness", "b"}


def _look(reviewer: str = "a", since: str = "", **more: Any) -> Coverage:
    return Coverage(looks=(Look(reviewer=reviewer, status=ReportStatus.EMPTY, since=since, **more),))


def test_looks_at_what_changed_since_add_up_to_the_whole_change() -> None:
    """A look at the whole change, then one at each change since; one that starts from a tree nobody saw is a gap."""
    history = History()
    history.passed(tree="1" * 40, coverage=_look(), **CHANGE)
    assert history.review(history.passed(tree="2" * 40, coverage=_look(since="1" * 40), **CHANGE)).unseen == ()
    assert history.review(history.passed(tree="4" * 40, coverage=_look(since="3" * 40), **CHANGE)).unseen == ("a",)


@pytest.mark.parametrize(
    "more",
    [
        {"mode": "quick"},
        {"changed": True},
        {"scope": "file"},
        {"coverage": _look(paths=("a.py",))},
        {"coverage": Coverage(looks=(look("a", ReportStatus.MALFORMED),))},
    ],
    ids=["quick", "files changed meanwhile", "one file", "some files", "unreadable"],
)
def test_some_looks_never_ship(more: dict[str, Any]) -> None:
    """They did not see the whole change as it is."""
    history = History()
    known = history.review(history.passed(tree="1" * 40, **{"coverage": _look(), **CHANGE, **more}))
    assert known.unseen == ("a",)
    assert known.shipping is not Shipping.SHIP


def test_everyone_who_ever_looked_at_the_change_has_to_look_at_its_last_state() -> None:
    """Also in another run; who looked at another change does not."""
    history = History()
    history.passed(tree="9" * 40, coverage=_look("c"), base="c" * 40, target="other..HEAD")
    history.passed(tree="1" * 40, coverage=_look("a"), run="first", **CHANGE)
    known = history.review(history.passed(tree="2" * 40, coverage=_look("b"), run="second", **CHANGE))
    assert (known.unseen, known.shipping) == (("a",), Shipping.BLOCK_ON_REJECTION)
    known = history.review(history.passed(tree="2" * 40, coverage=_look("a", since="1" * 40), run="third", **CHANGE))
    assert (known.unseen, known.shipping) == ((), Shipping.SHIP)


# --- which passes are one review -------------------------------------------------------------------------------------


def test_passes_of_a_round_share_an_id_and_a_verification_keeps_the_one_before() -> None:
    """0-33: imports have their own."""
    history, ids = History(), list[str]()
    for run, number, mode in (("r", 1, "full"), ("r", 1, "full"), ("", 1, "full"), ("r", 2, "full"), ("", 1, "verify")):
        id = review_id(history.ledger, f"REV-{len(ids) + 1}-a", run, number, mode)
        history.passed(run=run, round=number, mode=mode, review=id)
        ids.append(id)
    assert [ids.index(id) for id in ids] == [0, 0, 2, 3, 3]
    assert len(history.review().passes) == 2


def test_who_said_what_is_kept_apart_from_what_it_means() -> None:
    """A dispute changes nothing about the verdict."""
    history = History()
    history.passed(1)
    before = history.review().verdict
    history.ledger.apply(changed(1, What.CLAIM, LATER, who="fix", by=Actor.FINISH_TASK, word="wrong"))
    assert history.ledger.findings[finding(1).id].disputed
    assert history.review().verdict is before
