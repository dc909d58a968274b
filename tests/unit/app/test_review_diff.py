"""What a review is told about changes costs other stages nothing, and never fails a stage."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.app import workspace_diff
from pipeline.app.workspace_diff import ReviewDiffs
from pipeline.engine.context import Context
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.ports import Job
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


def review_diffs(state: State) -> ReviewDiffs:
    store = state.cwd / ".awf"
    return ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, store), store)


def after(trees: ReviewDiffs, stage: BaseStage, state: State, outcome: Outcome = DONE) -> list[Any]:
    return list(trees.after_stage(stage, 1, outcome, state))


def section(trees: ReviewDiffs, state: State, at: int = 2, **seen: Any) -> str:
    context = Context({"rev._reviewed": seen})
    return "".join(trees.summary_sections(REV, at, context, state._replace(context=context)))


@pytest.mark.parametrize("stage", OTHERS, ids=lambda stage: stage.id)
def test_other_stages_cost_nothing(state: State, stage: BaseStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started for them."""
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    trees = review_diffs(state)
    assert after(trees, stage, state) == []
    seen = Context({f"{stage.id}._reviewed": {"visit": 1, "tree": "1" * 40}})
    assert list(trees.summary_sections(stage, 2, seen, state)) == []


def test_a_review_that_could_not_run_looked_at_nothing(state: State) -> None:
    """What an earlier visit looked at remains the base of the next diff."""
    failed = Outcome(status=Status.FAIL, failure=Failure(kind=FailureClass.AGENT, digest="gone"))
    assert after(review_diffs(state), REV, state, failed) == []


def test_a_review_sees_the_diff_since_its_last_visit(state: State) -> None:
    """The tree is recorded with the stage, and the next visit gets the diff."""
    trees = review_diffs(state)
    (recorded,) = after(trees, REV, state)
    assert (recorded.name, recorded.key, recorded.value["visit"]) == ("set", "rev._reviewed", 1)
    assert "Nothing: the files are what they were." in section(trees, state, **recorded.value)
    (state.cwd / "a.txt").write_text("two\n")
    text = section(trees, state, 3, **recorded.value)
    assert "-one\n+two\n" in text


def test_a_diff_that_is_too_long_is_in_a_file(state: State) -> None:
    """Its statistics are shown, and the file is named: a read-only agent cannot run git."""
    trees = review_diffs(state)
    (recorded,) = after(trees, REV, state)
    (state.cwd / "b.txt").write_text("".join(f"{number}\n" for number in range(3_000)))
    text = section(trees, state, **recorded.value)
    assert "(3,000 changed lines)" in text
    assert " b.txt | 3000 +" in text
    (file,) = (state.cwd / ".awf/runs/r").glob("*.diff")
    assert f" {file}," in text
    assert "\n+2999\n" in file.read_text()


def test_a_diff_of_enormous_length_is_nowhere(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its statistics are given."""
    monkeypatch.setattr(workspace_diff, "_MAX_FILE_LINES", 1_000)
    trees = review_diffs(state)
    (recorded,) = after(trees, REV, state)
    (state.cwd / "b.txt").write_text("".join(f"{number}\n" for number in range(3_000)))
    assert "\n+17\n" not in section(trees, state, **recorded.value)
    assert not (state.cwd / ".awf").exists()


@pytest.fixture
def committed(state: State) -> State:
    """The same run, started at a commit after which a file was changed and another one added."""
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    for arguments in (["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *arguments], cwd=state.cwd, env=ENVIRON, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=state.cwd, env=ENVIRON, check=True, capture_output=True, text=True
    )
    (state.cwd / "a.txt").write_text("two\n")
    (state.cwd / "new.txt").write_text("three\n")
    return state._replace(head=head.stdout.strip())


def first_section(state: State, **options: Any) -> str:
    state = state._replace(options={"review": options} if options else {})
    return "".join(review_diffs(state).summary_sections(REV, 1, state.context, state))


def test_the_first_visit_is_given_the_change_since_the_run_started(committed: State) -> None:
    """Uncommitted and new files are included, and the section says so."""
    text = first_section(committed)
    assert text.startswith(f"## The change\n\nBase commit: {committed.head[:12]}.\n\n")
    assert "Uncommitted changes are included, new files too: 2 files." in text
    assert "-one\n+two\n" in text
    assert "+three" in text


def test_the_change_is_limited_to_paths(committed: State) -> None:
    """What is outside of them is not shown."""
    text = first_section(committed, paths=["new.txt"], target="main..HEAD")
    assert "(main..HEAD)" in text
    assert "+three" in text
    assert "a.txt" not in text


def test_the_base_of_a_workspace_comes_before_that_of_the_run(committed: State) -> None:
    """An explicit base comes before both, and a value that is not a commit never reaches git."""
    context = Context({"workspace.base": "--output=x"})
    assert first_section(committed._replace(context=context)).endswith("Not known: no base is on record.")
    given = first_section(committed._replace(context=context), base=committed.head)
    assert f"Base commit: {committed.head[:12]}." in given


@pytest.mark.parametrize(
    ("visit", "status", "asked"),
    [
        (2, Status.SUCCESS, True),
        (2, Status.PARTIAL_SUCCESS, True),
        (2, Status.FAIL, False),
        (3, Status.SUCCESS, False),
        (4, Status.SUCCESS, True),
    ],
)
def test_a_review_that_passes_by_a_part_of_the_change_is_given_all_of_it(
    committed: State, visit: int, status: Status, *, asked: bool
) -> None:
    """0-52: before it counts as passed; every third visit has looked at the whole change."""
    state = committed._replace(context=Context({"rev._reviewed": {"visit": 1, "tree": "1" * 40}}))
    job = Job(REV, visit, 1, state, state.cwd, lambda _: None, lambda _: None)
    text = review_diffs(state).second_look(job, Outcome(status=status))
    assert (text is not None) is asked
    assert not asked or "-one\n+two\n" in str(text)
    first = job._replace(state=committed)
    assert review_diffs(state).second_look(first, Outcome(status=status)) is None


def test_without_a_commit_there_is_no_change(state: State) -> None:
    """Nothing is said, as nothing can be compared."""
    assert first_section(state) == ""


def test_trouble_with_git_is_one_line(state: State) -> None:
    """Whether the tree could not be made or no longer exists."""
    (state.cwd / ".git/index").write_bytes(b"nonsense")
    (recorded,) = after(review_diffs(state), REV, state)
    assert recorded.value["why"].startswith("git add failed: ")
    trees = review_diffs(state)
    assert "\n\nNot known: git add failed: " in section(trees, state, **recorded.value)
    (state.cwd / ".git/index").unlink()
    gone = section(review_diffs(state), state, visit=1, tree="1" * 40)
    assert gone.endswith(f"Not known: git diff failed: bad object {'1' * 40}.")


@pytest.mark.parametrize("seen", [{"visit": 1}, {"visit": 1, "tree": "--output=x"}, {"visit": 1, "tree": 7}])
def test_a_forged_tree_never_reaches_git(state: State, seen: dict[str, Any]) -> None:
    """A stage can write anything into the context."""
    text = section(review_diffs(state), state, **seen)
    assert text.endswith("Not known: no tree is on record.")
    assert not (state.cwd / "x").exists()


@pytest.mark.parametrize("seen", [{}, {"visit": "one"}])
def test_a_foreign_value_is_ignored(state: State, seen: dict[str, Any]) -> None:
    """Only what a review recorded has a section."""
    assert section(review_diffs(state), state, **seen) == ""
