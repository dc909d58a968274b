"""Which passes and findings are one review, and the verdict on it."""

from typing import Any

import pytest
from tests.unit.findings.ledgers import AT, assessed, finding, turned

from pipeline.findings.events import Coverage, FindingRaised, Pass, ReviewerVerdict, RulingMade
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import FindingState, Gate, GateDecision, PassId, ReportStatus, Severity
from pipeline.findings.reviews import (
    claims_to_verify,
    full_review_pass,
    ledger_verdicts,
    passes_by_round,
    review_ids,
    review_of,
    standing_rejections,
)
from pipeline.findings.verdicts import Shipping, Verdict

BLOCKS = (ReviewerVerdict(reviewer="a", verdict="BLOCK", argument="no"),)


class History:
    """A ledger that grows pass by pass."""

    def __init__(self) -> None:
        self.ledger = Ledger()

    def passed(self, *numbers: int, stage: str = "", **more: Any) -> Pass:
        """A pass that reports findings by their numbers; those of a run have a stage."""
        id = PassId(f"REV-{len(self.ledger.passes) + 1}-a")
        ids = tuple(finding(number).id for number in numbers)
        self.ledger.apply(assessed(id, finding_ids=ids, stage=stage, run="r" if stage else "", **more))
        must = GateDecision(value=Gate.MUST)
        for number in numbers:
            if finding(number).id not in self.ledger.findings:
                raised = finding(number, severity=Severity.HIGH, gate=must, pass_id=id)
                self.ledger.apply(FindingRaised(at=AT, finding=raised))
        return self.ledger.passes[id]

    def turn(self, number: int, state: FindingState) -> None:
        self.ledger.apply(turned(number, state))

    def about(self, passed: Pass) -> list[int]:
        return [one.number for one in review_of(self.ledger, passed).findings]


def test_an_import_is_a_review_of_its_own() -> None:
    """0-30: it is about what it reported, and not about what others did."""
    history = History()
    first, second = history.passed(1, 2), history.passed()
    assert (history.about(first), history.about(second)) == ([1, 2], [])
    assert review_of(history.ledger, second).verdicts.shipping is Shipping.SHIP
    assert ledger_verdicts(history.ledger).shipping is Shipping.BLOCK_ON_MUSTS


def test_a_round_is_a_review_and_takes_over_what_its_run_left() -> None:
    """0-30: until a stage reviews again; what was settled since is left out."""
    history = History()
    history.passed(1)
    history.passed(2, stage="one")
    two = history.passed(3, stage="two")
    history.turn(2, FindingState.VERIFIED_FIXED)
    again = history.passed(stage="one")
    assert [[one.stage for one in group] for group in passes_by_round(history.ledger, "r")] == [["one", "two"], ["one"]]
    assert (history.about(two), history.about(again)) == ([2, 3], [3])
    history.turn(3, FindingState.FIX_CLAIMED)
    said = review_of(history.ledger, again).verdicts
    assert (said.verdict, said.after_verification, said.shipping) == (
        Verdict.PASS,
        Verdict.WARN,
        Shipping.BLOCK_ON_MUSTS,
    )


def test_a_round_has_one_id_and_a_verification_keeps_the_one_before() -> None:
    """0-33: imports in between have their own."""
    history = History()
    for stage, mode in (("one", "full"), ("two", "full"), ("", "full"), ("one", "full"), ("", "verify"), ("", "full")):
        history.passed(stage=stage, mode=mode)
    ids = list(review_ids(history.ledger).values())
    assert [ids.index(id) for id in ids] == [0, 0, 2, 3, 3, 5]


def test_a_verification_is_about_claims_and_a_review_about_what_it_rules_on() -> None:
    """0-30, 0-33: no matter who reported them."""
    history = History()
    history.passed(1, 2, 3)
    history.turn(1, FindingState.FIX_CLAIMED)
    history.turn(2, FindingState.REOPENED)
    assert [one.number for one in claims_to_verify(history.ledger)] == [1, 2]
    assert history.about(history.passed(mode="verify")) == [1, 2]
    full = history.passed()
    history.ledger.apply(RulingMade(at=AT, id=finding(3).id, by="a", ruling="upheld", pass_id=full.id))
    assert history.about(full) == [3]


def test_a_rejection_holds_until_its_reviewer_answers_again() -> None:
    """0-34: an answer that cannot be read changes nothing."""
    history = History()
    rejected = history.passed(coverage=_by(a=ReportStatus.EMPTY), reviewer_verdicts=BLOCKS)
    said = review_of(history.ledger, rejected).verdicts
    assert (said.verdict, said.shipping) == (Verdict.FAIL, Shipping.BLOCK_ON_REJECTION)
    history.passed(coverage=_by(b=ReportStatus.EMPTY))
    history.passed(coverage=_by(a=ReportStatus.MALFORMED))
    assert standing_rejections(history.ledger) == list(BLOCKS)
    history.passed(coverage=_by(a=ReportStatus.EMPTY))
    assert standing_rejections(history.ledger) == []


@pytest.mark.parametrize("changed", [True, False])
def test_a_full_review_is_whole_once_each_stage_has_reviewed(*, changed: bool) -> None:
    """0-31, 0-34: a change of the files during any part is a change during the whole."""
    history, stages = History(), {"full_review": ("one", "two")}
    first = history.passed(1, stage="one", ext={"record": {"x_tree_changed": True}} if changed else {}, **stages)
    assert full_review_pass(review_of(history.ledger, first)) is None
    second = history.passed(1, 2, stage="two", lens="qa", **stages)
    whole = full_review_pass(review_of(history.ledger, second))
    assert whole
    assert (whole.skill, whole.finding_ids) == ("full-review", (finding(1).id, finding(2).id))
    assert whole.ext["record"] == {"x_passes": [first.id, second.id]} | ({"x_tree_changed": True} if changed else {})


def _by(**reviewers: ReportStatus) -> Coverage:
    return Coverage(reviewers=reviewers)
