"""Which reviewers and tools a review runs, what its result is about, and how that becomes an exit code."""

from dataclasses import replace

import pytest
from tests.unit.findings.ledgers import SECOND, assessed, finding, ledger_of, look
from tests.unit.language.examples import check_text

from pipeline.app.review import ReviewResult, choose_reviewers, summarize_review, with_reviewers
from pipeline.app.settings import ToolSettings
from pipeline.engine.records import RunCreated
from pipeline.engine.state import RunStatus, begin
from pipeline.errors import AwfError
from pipeline.findings.events import Coverage
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import ReportStatus, Severity
from pipeline.findings.reviews import review
from pipeline.findings.verdicts import Verdict
from pipeline.language.model import FindingsFormat, Lens, ParallelStage, ToolStage

CHECKED = check_text("""workflow "W" {
  version 2
  start "reviews"
  stage "reviews" kind="parallel" join=3 { branch "a"; branch "b"; branch "q" }
  stage "a" kind="llm" findings="review" prompt="x"
  stage "b" kind="llm" findings="review" reviewer="bee" prompt="x"
  stage "q" kind="llm" findings="review" lens="qa" prompt="x"
  stage "exit" kind="exit"
  transition from="reviews" to="exit" on="always"
}
""")
CODE = frozenset({Lens.CODE_REVIEW})
LINT = ToolSettings(name="lint", command="lint --all", findings=FindingsFormat.SARIF)


def chosen(*tools: ToolSettings, only: tuple[str, ...] = (), claims: tuple[str, ...] = ()) -> list[str]:
    """The ids of what is chosen, with claims of some reviewers to verify."""
    assert CHECKED.workflow is not None
    findings = [finding(reviewer=reviewer) for reviewer in claims]
    return [stage.id for stage in choose_reviewers(CHECKED.workflow, CODE, only, tools, findings)]


def test_tools_come_after_the_reviewers() -> None:
    """A tool with the name of a stage gets another id."""
    assert chosen(LINT, replace(LINT, name="a")) == ["a", "b", "lint", "tool-a"]


def test_a_reviewer_is_chosen_by_its_id_or_its_name() -> None:
    """Whatever its lens."""
    assert chosen(LINT, only=("bee", "q", "lint")) == ["b", "q", "lint"]


def test_a_claim_is_verified_by_the_reviewer_that_reported_it() -> None:
    """If the reviewer of any claim is not there, all are asked."""
    assert chosen(LINT, claims=("bee",)) == ["b"]
    assert chosen(LINT, claims=("bee", "lint")) == ["b", "lint"]
    assert chosen(LINT, claims=("bee", "someone")) == ["a", "b", "lint"]


def test_without_a_reviewer_nothing_is_reviewed() -> None:
    """A lens that no reviewer has is an error."""
    assert CHECKED.workflow is not None
    with pytest.raises(AwfError):
        choose_reviewers(CHECKED.workflow, {Lens.PM}, (), ())


def test_the_source_says_what_runs() -> None:
    """Stages that were not chosen are gone, tools are added, and no more branches must succeed than there are."""
    assert CHECKED.workflow is not None
    selected = with_reviewers(
        CHECKED, CHECKED.workflow, choose_reviewers(CHECKED.workflow, CODE, ("a", "lint"), [LINT])
    )
    assert selected.workflow is not None
    reviews = selected.workflow.stage("reviews")
    assert isinstance(reviews, ParallelStage)
    assert ([branch.stage for branch in reviews.branches], reviews.join) == (["a", "lint"], 2)
    assert [stage.id for stage in selected.workflow.stages] == ["reviews", "a", "exit", "lint"]
    tool = selected.workflow.stage("lint")
    assert isinstance(tool, ToolStage)
    assert (tool.command, tool.findings) == ("lint --all", FindingsFormat.SARIF)
    assert 'stage "b"' not in selected.source.text


WORST = {
    Verdict.PASS: finding(severity=Severity.MEDIUM),
    Verdict.WARN: finding(severity=Severity.HIGH),
    Verdict.FAIL: finding(severity=Severity.CRITICAL),
    Verdict.ABORT: finding(severity=Severity.CRITICAL, system_breaking=True),
}


def result(status: RunStatus, verdict: Verdict, *gaps: str) -> ReviewResult:
    """A result with a verdict."""
    return ReviewResult("r", status, "", review(ledger_of(WORST[verdict])), gaps, 0.0, 0, 0.0)


@pytest.mark.parametrize(
    ("status", "verdict", "gaps", "code"),
    [
        (RunStatus.SUCCESS, Verdict.PASS, (), 0),
        (RunStatus.SUCCESS, Verdict.WARN, (), 0),
        (RunStatus.SUCCESS, Verdict.FAIL, (), 1),
        (RunStatus.SUCCESS, Verdict.PASS, ("a: no answer",), 3),
        (RunStatus.FAIL, Verdict.PASS, (), 1),
        (RunStatus.PAUSED, Verdict.PASS, (), 3),
        (RunStatus.PAUSED, Verdict.ABORT, (), 1),
        (RunStatus.WAITING, Verdict.FAIL, (), 3),
        (RunStatus.RUNNING, Verdict.PASS, (), 3),
        (RunStatus.CANCELLED, Verdict.PASS, (), 130),
    ],
)
def test_only_a_complete_review_can_succeed(
    status: RunStatus, verdict: Verdict, gaps: tuple[str, ...], code: int
) -> None:
    """Whatever stopped it, it is never taken for a pass."""
    found = result(status, verdict, *gaps)
    assert found.review.verdict is verdict
    assert found.exit_code(Verdict.FAIL) == code


@pytest.mark.parametrize(("worst", "code"), [(Verdict.WARN, 1), (Verdict.FAIL, 0)])
def test_the_mildest_verdict_that_fails_the_command_is_chosen(worst: Verdict, code: int) -> None:
    """A WARN fails the command only on request."""
    assert result(RunStatus.SUCCESS, Verdict.WARN).exit_code(worst) == code


RUN = begin(RunCreated(at=0.0, run_id="r", file="w", source=CHECKED.source.text, cwd="/", version="0"))


def test_the_result_covers_everything_that_is_open_about_the_target() -> None:
    """An earlier finding in a file of the change counts, although the run did not report it; one elsewhere does not."""
    raised = (finding(1, severity=Severity.CRITICAL), finding(2, locations=()), finding(3, reviewer="b"))
    ledger = ledger_of(*raised)
    ledger.apply(assessed(SECOND, run="r", paths=("src/a.py",)))
    found = summarize_review(RUN, ledger)
    assert [line.number for line in found.review.open] == [1, 2, 3]
    assert found.review.verdict is Verdict.FAIL
    elsewhere = ledger_of(*raised)
    elsewhere.apply(assessed(SECOND, run="r", paths=("src/b.py",)))
    assert [line.number for line in summarize_review(RUN, elsewhere).review.open] == [2]
    assert [line.number for line in summarize_review(RUN, elsewhere).review.elsewhere] == [1, 3]


def test_a_reviewer_without_a_readable_answer_makes_the_result_incomplete() -> None:
    """It is named, and so are the reviewers that did not run; nothing passes."""
    ledger = Ledger([assessed(run="r", coverage=Coverage(looks=(look("a"), look("bee", ReportStatus.MALFORMED))))])
    found = summarize_review(RUN, ledger)
    assert [gap.partition(":")[0] for gap in found.gaps] == ["a", "b", "q", "bee"]
    assert found.review.verdict is Verdict.FAIL
    assert found.exit_code(Verdict.ABORT) == 3
    assert found.as_json()["complete"] is False
