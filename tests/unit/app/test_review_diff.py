"""What reviews are told of changes costs other stages nothing, and never fails one."""

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


def told(trees: ReviewDiffs, state: State, **seen: Any) -> str:
    context = Context({"rev._reviewed": seen})
    return "".join(trees.summary_sections(REV, context, state._replace(context=context)))


@pytest.mark.parametrize("stage", OTHERS, ids=lambda stage: stage.id)
def test_other_stages_cost_nothing(state: State, stage: BaseStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started for them, before or after."""
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    trees = ReviewDiffs(ENVIRON, state.cwd / ".awf")
    assert after(trees, stage, state) == []
    seen = Context({f"{stage.id}._reviewed": {"visit": 1, "tree": "1" * 40}})
    assert list(trees.summary_sections(stage, seen, state)) == []


def test_a_review_that_did_not_take_place_looked_at_nothing(state: State) -> None:
    """What an earlier visit looked at stays what was last reviewed."""
    failed = Outcome(status=Status.FAIL, failure=Failure(kind=FailureClass.AGENT, digest="gone"))
    assert after(ReviewDiffs(ENVIRON, state.cwd / ".awf"), REV, state, failed) == []


def test_what_a_review_looked_at_is_told_apart_from_what_is_there_now(state: State) -> None:
    """Recorded with the stage, shown to its next visit, with the way to the whole."""
    trees = ReviewDiffs(ENVIRON, state.cwd / ".awf")
    (recorded,) = after(trees, REV, state)
    assert (recorded.name, recorded.key, recorded.value["visit"]) == ("set", "rev._reviewed", 1)
    assert "Nothing: the files are what they were." in told(trees, state, **recorded.value)
    (state.cwd / "a.txt").write_text("two\n")
    text = told(trees, state, **recorded.value)
    assert "-one\n+two\n" in text
    assert f"`git diff {recorded.value['tree'][:12]} " in text


def test_too_long_a_diff_is_not_even_asked_for(state: State) -> None:
    """Its statistics say that it is."""
    trees = ReviewDiffs(ENVIRON, state.cwd / ".awf")
    (recorded,) = after(trees, REV, state)
    (state.cwd / "b.txt").write_text("".join(f"{number}\n" for number in range(3_000)))
    text = told(trees, state, **recorded.value)
    assert "too long to be shown here (3,000 changed lines)" in text
    assert " b.txt | 3000 +" in text
    assert "\n+17\n" not in text


def test_trouble_with_git_is_a_line(state: State) -> None:
    """On record where the tree could not be made, and told where it is not there any more."""
    (state.cwd / ".git/index").write_bytes(b"nonsense")
    (recorded,) = after(ReviewDiffs(ENVIRON, state.cwd / ".awf"), REV, state)
    assert recorded.value["why"].startswith("git add failed: ")
    trees = ReviewDiffs(ENVIRON, state.cwd / ".awf")
    assert "\n\nNot known: git add failed: " in told(trees, state, **recorded.value)
    (state.cwd / ".git/index").unlink()
    gone = told(ReviewDiffs(ENVIRON, state.cwd / ".awf"), state, visit=1, tree="1" * 40)
    assert gone.endswith(f"Not known: git diff failed: bad object {'1' * 40}.")


@pytest.mark.parametrize("seen", [{"visit": 1}, {"visit": 1, "tree": "--output=x"}, {"visit": 1, "tree": 7}])
def test_what_no_review_recorded_never_reaches_git(state: State, seen: dict[str, Any]) -> None:
    """A stage can write into the context what it likes."""
    text = told(ReviewDiffs(ENVIRON, state.cwd / ".awf"), state, **seen)
    assert text.endswith("Not known: no tree is on record.")
    assert not (state.cwd / "x").exists()


@pytest.mark.parametrize("seen", [{}, {"visit": "one"}])
def test_a_value_of_another_kind_says_nothing(state: State, seen: dict[str, Any]) -> None:
    """It is not ours."""
    assert told(ReviewDiffs(ENVIRON, state.cwd / ".awf"), state, **seen) == ""
