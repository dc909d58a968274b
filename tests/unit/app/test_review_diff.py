"""What a review is told about the change costs other stages nothing, and never fails a stage."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.app import workspace_diff
from pipeline.app.workspace_diff import ReviewDiffs
from pipeline.engine.context import Context
from pipeline.engine.ports import Job
from pipeline.engine.records import RunCreated
from pipeline.engine.state import State, begin
from pipeline.findings.git import TreeSnapshots
from pipeline.language.model import BaseStage, LlmStage, ToolStage

SOURCE = 'workflow "W" {\nversion 2\nstart "a"\nstage "a" kind="llm" prompt="x"\nstage "end" kind="exit"\n}\n'
REV = LlmStage(id="rev", prompt="x", auto_status=True)
OTHERS = (LlmStage(id="fix", prompt="x"), ToolStage(id="lint", command="true"))
ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def state(tmp_path: Path) -> State:
    """A run in a repository with one file and no commit."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=ENVIRON, check=True)
    (tmp_path / "a.txt").write_text("one\n")
    return begin(RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, cwd=str(tmp_path), version="0"))


def tree(state: State) -> str:
    """The tree of the files as they are now."""
    return TreeSnapshots(ENVIRON, state.cwd / ".awf").tree(state.cwd)


def section(state: State, since: str = "", stage: BaseStage = REV) -> str:
    """What a stage is given that has seen a tree, or has never looked."""
    store = state.cwd / ".awf"
    diffs = ReviewDiffs(ENVIRON, TreeSnapshots(ENVIRON, store), store, lambda _: since)
    briefing = diffs.brief(Job(stage, 1, 1, state, state.cwd, lambda _: None, lambda _: None))
    return "".join(briefing.sections) if briefing else ""


@pytest.mark.parametrize("stage", OTHERS, ids=lambda stage: stage.id)
def test_other_stages_cost_nothing(state: State, stage: BaseStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started for them."""
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    assert section(state, "1" * 40, stage) == ""


def test_a_review_is_given_the_diff_since_its_last_look(state: State) -> None:
    """If nothing has changed since, the section says so."""
    seen = tree(state)
    assert "Nothing: the files are what they were." in section(state, seen)
    (state.cwd / "a.txt").write_text("two\n")
    assert "-one\n+two\n" in section(state, seen)


def test_a_diff_that_is_too_long_is_in_a_file(state: State) -> None:
    """Its statistics are shown, and the file is named: a read-only agent cannot run git."""
    seen = tree(state)
    (state.cwd / "b.txt").write_text("".join(f"{number}\n" for number in range(3_000)))
    text = section(state, seen)
    assert "(3,000 changed lines)" in text
    assert " b.txt | 3000 +" in text
    (file,) = (state.cwd / ".awf/runs/r").glob("*.diff")
    assert f" {file}," in text
    assert "\n+2999\n" in file.read_text()


def test_a_diff_of_enormous_length_is_nowhere(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its statistics are given."""
    monkeypatch.setattr(workspace_diff, "_MAX_FILE_LINES", 1_000)
    seen = tree(state)
    (state.cwd / "b.txt").write_text("".join(f"{number}\n" for number in range(3_000)))
    assert "\n+17\n" not in section(state, seen)
    assert not (state.cwd / ".awf/runs").exists()


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
    """What a review that has never looked is given, with these options of the run."""
    return section(state._replace(options={"review": options} if options else {}))


def test_a_first_look_is_given_the_change_since_the_run_started(committed: State) -> None:
    """Uncommitted and new files are included, and the section says so."""
    text = first_section(committed)
    assert text.startswith(f"## The change\n\nBase commit: {committed.head[:12]}.\n\n")
    assert "Uncommitted changes are included, new files too: 2 files." in text
    assert "-one\n+two\n" in text
    assert "+three" in text


def test_the_change_is_limited_to_paths(committed: State) -> None:
    """What is outside of them is not shown, at the first look and at a later one."""
    paths = {"paths": ["new.txt"], "target": "main..HEAD"}
    text = first_section(committed, **paths)
    assert "(main..HEAD)" in text
    assert "+three" in text
    assert "a.txt" not in text
    later = section(committed._replace(options={"review": paths}), committed.head)
    assert "+three" in later
    assert "a.txt" not in later


def test_a_quick_review_is_told_so(committed: State) -> None:
    """It is to report only what is severe."""
    assert "only P0 and P1" in first_section(committed, mode="quick")
    assert "quick" not in first_section(committed)


def test_the_base_of_a_workspace_comes_before_that_of_the_run(committed: State) -> None:
    """An explicit base comes before both, and a value that is not a commit never reaches git."""
    context = Context({"workspace.base": "--output=x"})
    assert first_section(committed._replace(context=context)).endswith("Not known: no base is on record.")
    given = first_section(committed._replace(context=context), base=committed.head)
    assert f"Base commit: {committed.head[:12]}." in given


def test_without_a_commit_there_is_no_change(state: State) -> None:
    """Nothing is said, as nothing can be compared."""
    assert first_section(state) == ""


def test_trouble_with_git_is_one_line(state: State) -> None:
    """Whether the tree cannot be made or no longer exists."""
    assert section(state, "1" * 40).endswith(f"Not known: git diff failed: bad object {'1' * 40}.")
    (state.cwd / ".git/index").write_bytes(b"nonsense")
    assert "\n\nNot known: git add failed: " in section(state, "1" * 40)
