"""What a review is told about changes costs other stages nothing, and never fails a stage."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.app.workspace_diff import ReviewDiffs
from pipeline.engine.context import Context
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.records import RunCreated
from pipeline.engine.state import State, begin
from pipeline.findings.git import TreeSnapshots
from pipeline.language.model import BaseStage, LlmStage, ToolStage

SOURCE = 'workflow "W" {\nversion 2\nstart "a"\nstage "a" kind="llm" prompt="x"\nstage "end" kind="exit"\n}\n'
REV = LlmStage(id="rev", prompt="x", auto_status=True)
OTHERS = (LlmStage(id="fix", prompt="x"), ToolStage(id="lint", command="true"))
DONE = Outcome(status=Status.FAIL)
ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def state(tmp_path: Path) -> State:
    """A run in a repository with one file and no commit."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=ENVIRON, check=True)
    (tmp_path / "a.txt").write_text("one\n")
    return begin(RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, cwd=str(tmp_path), version="0"))


def after(trees: ReviewDiffs, stage: BaseStage, state: State, outcome: Outcome = DONE) -> list[Any]:
    return list(trees.after_stage(stage, 1, outcome, state))


def section(trees: ReviewDiffs, state: State, at: int = 2, **seen: Any) -> str:
    context = Context({"rev._reviewed": seen})
    return "".join(trees.summary_sections(REV, at, context, state._replace(context=context)))


@pytest.mark.parametrize("stage", OTHERS, ids=lambda stage: stage.id)
def test_other_stages_cost_nothing(state: State, stage: BaseStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started for them."""
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    trees = ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, state.cwd / ".awf"))
    assert after(trees, stage, state) == []
    seen = Context({f"{stage.id}._reviewed": {"visit": 1, "tree": "1" * 40}})
    assert list(trees.summary_sections(stage, 2, seen, state)) == []


def test_a_review_that_could_not_run_looked_at_nothing(state: State) -> None:
    """What an earlier visit looked at remains the base of the next diff."""
    failed = Outcome(status=Status.FAIL, failure=Failure(kind=FailureClass.AGENT, digest="gone"))
    assert after(ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, state.cwd / ".awf")), REV, state, failed) == []


def test_a_review_sees_the_diff_since_its_last_visit(state: State) -> None:
    """The tree is recorded with the stage, and the next visit gets the diff and the command that shows all of it."""
    trees = ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, state.cwd / ".awf"))
    (recorded,) = after(trees, REV, state)
    assert (recorded.name, recorded.key, recorded.value["visit"]) == ("set", "rev._reviewed", 1)
    assert "Nothing: the files are what they were." in section(trees, state, **recorded.value)
    (state.cwd / "a.txt").write_text("two\n")
    text = section(trees, state, 3, **recorded.value)
    assert "-one\n+two\n" in text
    assert f"`git diff {recorded.value['tree'][:12]} " in text


def test_a_diff_that_is_too_long_is_not_read(state: State) -> None:
    """Its statistics are shown instead."""
    trees = ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, state.cwd / ".awf"))
    (recorded,) = after(trees, REV, state)
    (state.cwd / "b.txt").write_text("".join(f"{number}\n" for number in range(3_000)))
    text = section(trees, state, **recorded.value)
    assert "too long to be shown here (3,000 changed lines)" in text
    assert " b.txt | 3000 +" in text
    assert "\n+17\n" not in text


def test_trouble_with_git_is_one_line(state: State) -> None:
    """Whether the tree could not be made or no longer exists."""
    (state.cwd / ".git/index").write_bytes(b"nonsense")
    (recorded,) = after(ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, state.cwd / ".awf")), REV, state)
    assert recorded.value["why"].startswith("git add failed: ")
    trees = ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, state.cwd / ".awf"))
    assert "\n\nNot known: git add failed: " in section(trees, state, **recorded.value)
    (state.cwd / ".git/index").unlink()
    gone = section(ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, state.cwd / ".awf")), state, visit=1, tree="1" * 40)
    assert gone.endswith(f"Not known: git diff failed: bad object {'1' * 40}.")


@pytest.mark.parametrize("seen", [{"visit": 1}, {"visit": 1, "tree": "--output=x"}, {"visit": 1, "tree": 7}])
def test_a_forged_tree_never_reaches_git(state: State, seen: dict[str, Any]) -> None:
    """A stage can write anything into the context."""
    text = section(ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, state.cwd / ".awf")), state, **seen)
    assert text.endswith("Not known: no tree is on record.")
    assert not (state.cwd / "x").exists()


@pytest.mark.parametrize("seen", [{}, {"visit": "one"}])
def test_a_foreign_value_is_ignored(state: State, seen: dict[str, Any]) -> None:
    """Only what a review recorded has a section."""
    assert section(ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, state.cwd / ".awf")), state, **seen) == ""
