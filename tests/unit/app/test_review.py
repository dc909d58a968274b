"""Which reviewers and tools a review runs, and how its result becomes an exit code."""

from dataclasses import replace

import pytest
from tests.unit.findings.strategies import plain
from tests.unit.language.examples import check_text

from pipeline.app.review import ReviewResult, choose_reviewers, with_reviewers
from pipeline.app.settings import ToolSettings
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError
from pipeline.findings.verdicts import Verdict, verdicts
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
    findings = [replace(plain(), sources=(source,)) for source in claims]
    return [stage.id for stage in choose_reviewers(CHECKED.workflow, CODE, only, tools, findings)]


def test_tools_come_after_the_reviewers() -> None:
    """A tool with the name of a stage gets another id."""
    assert chosen(LINT, LINT.model_copy(update={"name": "a"})) == ["a", "b", "lint", "tool-a"]


def test_a_reviewer_is_chosen_by_its_id_or_its_name() -> None:
    """Whatever its lens."""
    assert chosen(LINT, only=("bee", "q", "lint")) == ["b", "q", "lint"]


def test_a_claim_is_verified_by_who_reported_it() -> None:
    """If nobody of those that reported one is there, all are asked."""
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


def result(status: RunStatus, verdict: Verdict, *gaps: str) -> ReviewResult:
    """A result with a verdict."""
    found = replace(verdicts([]), after_verification=verdict)
    return ReviewResult("r", status, "", found, (), (), True, gaps, 0, 0, 0.0, 0, 0.0)


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
    assert result(status, verdict, *gaps).exit_code(Verdict.FAIL) == code
